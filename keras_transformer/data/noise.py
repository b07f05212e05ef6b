"""Noise in the sources, so that a model learns more from few pairs: steps from dataset to dataset.

They take what `gather_pairs` gives, and come before `teacher_forcing`; `encoded_dataset` and
`translation_dataset` put them there. The noise of a batch depends on the seed and on its place in the epoch
alone, so a resumed run sees the same; since each epoch has an order of its own, a pair is changed differently
in each.
"""

import itertools
import random
from collections.abc import Callable

import tensorflow as tf

from keras_transformer.data.transformations import Transformation
from keras_transformer.text import SPECIAL_TOKENS, SubwordTokenizer

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
            if token_id >= len(SPECIAL_TOKENS) and piece.type == piece.NORMAL
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


def subword_dropout(
    source_tokenizer: SubwordTokenizer | None,
    target_tokenizer: SubwordTokenizer | None,
    rate: float,
    *,
    max_length: int | None = None,
    num_samples: int = 32,
    seed: int = 0,
) -> Transformation:
    """Spells tokens by smaller ones, as if merges had been left out (Provilkov et al. 2020, section 3.2).

    It takes what `gather_pairs` gives, and comes before `teacher_forcing`; hand it to `encoded_dataset` or
    `translation_dataset` as `noise`. In the paper merges are left out of words; here out of each piece of a
    word, so no new piece reaches over the border of two old ones. The spellings of each piece are drawn
    once, and each token of each batch takes one of them, by the seed and the place of the batch in the
    epoch. Rows get longer, and batches with them.

    Args:
        source_tokenizer: of the sources, of type "bpe"; None leaves them alone.
        target_tokenizer: of the targets.
        rate: the probability that a merge is left out; 0.1 in the paper.
        max_length: most tokens of a row without its special token; one that would become longer stays as
            it is. None for no limit.
        num_samples: spellings of each piece.
        seed: of all draws.

    Returns:
        from token ids int32 (b, ragged) of source and target to the same.

    Raises:
        ValueError: a rate outside [0, 1), no samples, or a vocabulary of another type.
    """
    tokenizers = (source_tokenizer, target_tokenizer)
    changes = {
        id(t): _respelling(t, rate, num_samples, max_length, seed) for t in tokenizers if t is not None
    }

    def change_batch(
        number: tf.Tensor, pair: tuple[tf.RaggedTensor, tf.RaggedTensor]
    ) -> tuple[tf.RaggedTensor, ...]:
        """Change one batch."""
        return tuple(
            ids if tokenizer is None else changes[id(tokenizer)](ids, tf.stack([2 * number + side, seed]))
            for side, (ids, tokenizer) in enumerate(zip(pair, tokenizers, strict=True))
        )

    return lambda dataset: dataset.enumerate().map(change_batch, num_parallel_calls=tf.data.AUTOTUNE)


def _respelling(
    tokenizer: SubwordTokenizer, rate: float, num_samples: int, max_length: int | None, seed: int
) -> Callable[[tf.RaggedTensor, tf.Tensor], tf.RaggedTensor]:
    """Make what takes one of its spellings for each token of int32 (b, ragged)."""
    spellings = sample_spellings(tokenizer.proto, rate, num_samples, seed=seed)  # (v, k, ragged)
    spellings = spellings.merge_dims(0, 1)
    lengths = tf.cast(spellings.row_lengths(), tf.int32)

    def respell(token_ids: tf.RaggedTensor, draw_seed: tf.Tensor) -> tf.RaggedTensor:
        """Draw for one batch."""
        draws = tf.random.stateless_uniform(
            tf.shape(token_ids.flat_values), draw_seed, 1, num_samples + 1, tf.int32
        )
        wholes = token_ids.flat_values * (num_samples + 1)
        if max_length is not None:
            new_lengths = tf.reduce_sum(token_ids.with_values(tf.gather(lengths, wholes + draws)), axis=1)
            draws *= tf.cast(tf.gather(new_lengths <= max_length, token_ids.value_rowids()), tf.int32)
        return token_ids.with_values(tf.gather(spellings, wholes + draws)).merge_dims(1, 2)

    return respell


def drop_tokens(rate: float, *, seed: int = 0) -> Transformation:
    """Leaves out tokens of the sources (Iyyer et al. 2015, section 3.2; Lample et al. 2018, section 2.3).

    Args:
        rate: the probability that a token is left out. Of each source at least one stays.
        seed: of the draws.

    Returns:
        from token ids int32 (b, ragged) of source and target to the same.

    Raises:
        ValueError: a rate outside [0, 1).

    Example:
        >>> ids = tf.ragged.constant([[4, 5, 6, 7], [8]])
        >>> dataset = tf.data.Dataset.from_tensors((ids, ids)).apply(drop_tokens(0.5))
        >>> [(source, target)] = dataset
        >>> len(source.to_list()), target.to_list()
        (2, [[4, 5, 6, 7], [8]])
    """
    if not 0 <= rate < 1:
        raise ValueError(f"`rate` must be at least 0 and below 1. Received: rate={rate}.")

    def drop(source: tf.RaggedTensor, draw_seed: tf.Tensor) -> tf.RaggedTensor:
        """Leave out tokens of one batch."""
        draws = tf.random.stateless_uniform(tf.shape(source.flat_values), draw_seed)
        draws = source.with_flat_values(draws)
        # The token with the highest draw stays, whatever it is.
        highest = tf.reduce_max(draws, axis=1, keepdims=True)  # (b, ragged 1)
        return tf.ragged.boolean_mask(source, (draws >= rate) | (draws >= highest))

    return _of_sources(drop, seed)


def permute_tokens(distance: int, *, seed: int = 0) -> Transformation:
    """Moves tokens of the sources by a few places (Lample et al. 2018, section 2.3).

    Args:
        distance: the most places that a token moves.
        seed: of the draws.

    Returns:
        from token ids int32 (b, ragged) of source and target to the same.

    Raises:
        ValueError: a distance below 0.
    """
    if distance < 0:
        raise ValueError(f"`distance` must be at least 0. Received: distance={distance}.")

    def permute(source: tf.RaggedTensor, draw_seed: tf.Tensor) -> tf.RaggedTensor:
        """Sort each row by its places and what is added to them."""
        draws = tf.random.stateless_uniform(
            tf.shape(source.flat_values), draw_seed, 0, distance + 1, tf.float64
        )
        places = tf.cast(tf.range(tf.size(source.flat_values)), tf.float64) + draws
        # Rows lie further apart than anything moves.
        rows = tf.cast(source.value_rowids(), tf.float64) * (distance + 2)
        return source.with_flat_values(tf.gather(source.flat_values, tf.argsort(places + rows, stable=True)))

    return _of_sources(permute, seed)


def _of_sources(change: Callable[[tf.RaggedTensor, tf.Tensor], tf.RaggedTensor], seed: int) -> Transformation:
    """Change the sources of each batch, with draws of its own."""

    def change_batch(
        number: tf.Tensor, pair: tuple[tf.RaggedTensor, tf.RaggedTensor]
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Change one batch."""
        source, target = pair
        return change(source, tf.stack([tf.constant(seed, tf.int64), number])), target

    def change_dataset(dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Change all batches."""
        return dataset.enumerate().map(change_batch, num_parallel_calls=tf.data.AUTOTUNE)

    return change_dataset
