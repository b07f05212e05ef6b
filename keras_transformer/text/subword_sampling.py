"""Other ways to spell the pieces of a BPE vocabulary, drawn as BPE-dropout draws them."""

import itertools
import random

import tensorflow as tf

from keras_transformer.text.special_tokens import NUM_SPECIAL_TOKENS

Spelling = tuple[int, ...]
"""Token ids whose texts, one after the other, are that of a piece."""


def sample_spellings(proto: bytes, rate: float, num_samples: int = 32, *, seed: int = 0) -> tf.RaggedTensor:
    """Spells each piece of a BPE vocabulary anew, leaving out merges (Provilkov et al. 2020, section 3.2).

    Args:
        proto: a serialized SentencePiece model of type "bpe", with v pieces; that of a `SubwordTokenizer`.
        rate: the probability that a merge is left out.
        num_samples: draws for each piece.
        seed: of the draws.

    Returns:
        token ids, int32 (v, num_samples + 1, ragged). The first of a piece is the piece itself. Special
        tokens, symbols that somebody has defined and bytes have no other.

    Raises:
        ValueError: a rate outside [0, 1), no draws, or a SentencePiece model of another type.

    Example:
        >>> from keras_transformer.text import SubwordTokenizer
        >>> tokenizer = SubwordTokenizer.train(["a dog", "a dog"], vocabulary_size=12)
        >>> sample_spellings(tokenizer.proto, 0.5, 2).shape
        TensorShape([12, 3, None])
    """
    if not 0 <= rate < 1:
        raise ValueError(f"`rate` must be at least 0 and below 1. Received: rate={rate}.")
    if num_samples < 1:
        raise ValueError(f"`num_samples` must be at least 1. Received: num_samples={num_samples}.")
    merges, rng = _Merges(proto), random.Random(seed)
    spellings: list[Spelling] = []
    for token_id, piece in enumerate(merges.pieces):
        spellings.append((token_id,))
        if not merges.can_spell(token_id):
            spellings += [(token_id,)] * num_samples
        else:
            spellings += [merges.spell(piece, rate, rng) for _ in range(num_samples)]
    rows = tf.ragged.constant(spellings, dtype=tf.int32)
    return tf.RaggedTensor.from_uniform_row_length(rows, num_samples + 1)


class _Merges:
    """The pieces of a SentencePiece model, and the order in which they are merged."""

    def __init__(self, proto: bytes) -> None:
        # Imported here: other tokenizers need no SentencePiece.
        from sentencepiece import sentencepiece_model_pb2

        model = sentencepiece_model_pb2.ModelProto.FromString(proto)
        if model.trainer_spec.model_type != model.trainer_spec.BPE:
            received = model.trainer_spec.ModelType.Name(model.trainer_spec.model_type).lower()
            raise ValueError(
                f"Merges can be left out of a vocabulary of type 'bpe' alone. Received: {received!r}."
            )
        self.pieces = [piece.piece for piece in model.pieces]
        self._ids = {
            piece.piece: token_id
            for token_id, piece in enumerate(model.pieces)
            if token_id >= NUM_SPECIAL_TOKENS and piece.type == piece.NORMAL
        }
        self._scores = [piece.score for piece in model.pieces]

    def can_spell(self, token_id: int) -> bool:
        """Say whether a piece is one of text, of which the vocabulary has each character."""
        piece = self.pieces[token_id]
        return self._ids.get(piece) == token_id and all(character in self._ids for character in piece)

    def spell(self, piece: str, rate: float, rng: random.Random) -> Spelling:
        """Merge the characters of a piece, the best pair first; what is left out stays left out."""
        parts, left_out = list(piece), set()
        while True:
            starts = [sum(map(len, parts[:number])) for number in range(len(parts))]
            pairs = [
                (-self._scores[self._ids[left + right]], number)
                for number, (left, right) in enumerate(itertools.pairwise(parts))
                if left + right in self._ids and (starts[number], left, right) not in left_out
            ]
            if not pairs:
                return tuple(self._ids[part] for part in parts)
            _, number = min(pairs)
            if rng.random() < rate:
                left_out.add((starts[number], *parts[number : number + 2]))
            else:
                parts[number : number + 2] = [parts[number] + parts[number + 1]]
