"""Noise in training pairs, which helps a model to learn from little data.

A noise step transforms a dataset of source and target token ids, int32 (b, ragged) each, before special
tokens and padding are added. Pass it as `translation_dataset(..., noise=[...])`. The noise of a batch depends
only on the seed and the index of the batch in the epoch, so a resumed run repeats it. Because each epoch has
a different order, a pair is changed differently in each epoch.
"""

import itertools
import random
from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf

from keras_transformer._arguments import check_kind, check_number, check_positive, check_rates
from keras_transformer.data.batching import Transformation
from keras_transformer.text.subword import SubwordTokenizer
from keras_transformer.types import SPECIAL_TOKENS

Change: TypeAlias = Callable[[tf.RaggedTensor, tf.Tensor], tf.RaggedTensor]
"""From token ids int32 (b, ragged) and a seed, int64 (2,), to changed token ids."""


def subword_dropout(
    source_tokenizer: SubwordTokenizer | None,
    target_tokenizer: SubwordTokenizer | None,
    rate: float,
    *,
    max_length: int | None = None,
    num_samples: int = 32,
    seed: int = 0,
) -> Transformation:
    """Return a noise step that randomly splits subwords into smaller ones (BPE-dropout).

    Provilkov et al. 2020, "BPE-Dropout", section 3.2. Unlike in the paper, merges are dropped within each
    subword, not within whole words, so no new subword crosses the boundary of two old ones. For speed,
    `num_samples` segmentations of each subword are drawn in advance, and each token uses a random one. Rows
    get longer, and so do batches.

    Args:
        source_tokenizer: Tokenizer of the sources, of type "bpe". None leaves sources unchanged.
        target_tokenizer: Tokenizer of the targets, of type "bpe". None leaves targets unchanged.
        rate: Probability that a merge is dropped. The paper uses 0.1.
        max_length: Maximum number of tokens of a row, without special tokens. A row that would exceed it
            stays unchanged. Defaults to no limit.
        num_samples: Number of segmentations per subword.
        seed: Random seed.

    Returns:
        A function from a dataset of source and target token ids, int32 (b, ragged) each, to a dataset of the
        same structure.

    Raises:
        ValueError: If `rate` is outside [0, 1), `num_samples` is below 1, or a vocabulary is not of type
            "bpe".
    """
    check_kind(SubwordTokenizer, None, source_tokenizer=source_tokenizer, target_tokenizer=target_tokenizer)
    check_rates(rate=rate)
    check_positive(num_samples=num_samples, max_length=1 if max_length is None else max_length)
    check_number(whole=True, seed=seed)
    source = _segmentation_step(source_tokenizer, rate, num_samples, max_length, seed)
    same = target_tokenizer is source_tokenizer
    target = source if same else _segmentation_step(target_tokenizer, rate, num_samples, max_length, seed)

    @tf.autograph.experimental.do_not_convert
    def respell_batch(
        number: tf.Tensor, pair: tuple[tf.RaggedTensor, tf.RaggedTensor]
    ) -> tuple[tf.RaggedTensor, ...]:
        return tuple(
            ids if respell is None else respell(ids, tf.stack([2 * number + side, seed]))
            for side, (ids, respell) in enumerate(zip(pair, (source, target), strict=True))
        )

    return lambda dataset: dataset.enumerate().map(respell_batch, num_parallel_calls=tf.data.AUTOTUNE)


def _segmentation_step(
    tokenizer: SubwordTokenizer | None, rate: float, num_samples: int, max_length: int | None, seed: int
) -> Change | None:
    """Return a function that replaces each token by one of its segmentations."""
    if tokenizer is None:
        return None
    spellings = _sample_segmentations(tokenizer.proto, rate, num_samples, seed)
    lengths = tf.cast(spellings.row_lengths(), tf.int32)

    def respell(token_ids: tf.RaggedTensor, draw_seed: tf.Tensor) -> tf.RaggedTensor:
        shape = tf.shape(token_ids.flat_values)
        # Segmentation 0 is the unchanged piece, for rows that would become too long.
        draws = tf.random.stateless_uniform(shape, draw_seed, 1, num_samples + 1, tf.int32)
        wholes = token_ids.flat_values * (num_samples + 1)
        if max_length is not None:
            new_lengths = tf.reduce_sum(token_ids.with_values(tf.gather(lengths, wholes + draws)), axis=1)
            draws *= tf.cast(tf.gather(new_lengths <= max_length, token_ids.value_rowids()), tf.int32)
        # (b, ragged, ragged) -> (b, ragged)
        return token_ids.with_values(tf.gather(spellings, wholes + draws)).merge_dims(1, 2)

    return respell


def _sample_segmentations(proto: bytes, rate: float, num_samples: int, seed: int) -> tf.RaggedTensor:
    """Draw segmentations of v pieces: int32 (v * (num_samples + 1), ragged), the unchanged piece first."""
    # Imported here, because only subword tokenizers need SentencePiece.
    from sentencepiece import sentencepiece_model_pb2

    # Rejected: the sampling of SentencePiece and TensorFlow Text. Its seed does not hold across threads, so a
    # resumed run would not repeat it.
    model = sentencepiece_model_pb2.ModelProto.FromString(proto)
    if model.trainer_spec.model_type != model.trainer_spec.BPE:
        received = model.trainer_spec.ModelType.Name(model.trainer_spec.model_type).lower()
        raise ValueError(f"Subword dropout needs a vocabulary of type 'bpe'. Received: {received!r}.")
    # The id of each regular piece, and the rank of its merge (low ranks are merged first).
    merges = {
        piece.piece: (token_id, -piece.score)
        for token_id, piece in enumerate(model.pieces)
        if token_id >= len(SPECIAL_TOKENS) and piece.type == piece.NORMAL
    }
    rng = random.Random(seed)
    spellings: list[tuple[int, ...]] = []
    for token_id, text in enumerate(piece.piece for piece in model.pieces):
        spellings.append((token_id,))
        if text in merges and merges[text][0] == token_id and all(letter in merges for letter in text):
            spellings += [_segment(text, merges, rate, rng) for _ in range(num_samples)]
        else:
            spellings += [(token_id,)] * num_samples
    return tf.ragged.constant(spellings, dtype=tf.int32)


def _segment(
    piece: str, merges: dict[str, tuple[int, float]], rate: float, rng: random.Random
) -> tuple[int, ...]:
    """Merge the characters of a piece by rank, dropping merges at random; a dropped merge is final."""
    parts, left_out = list(piece), set()
    while True:
        starts = [sum(map(len, parts[:number])) for number in range(len(parts))]
        pairs = [
            (merges[left + right][1], number)
            for number, (left, right) in enumerate(itertools.pairwise(parts))
            if left + right in merges and (starts[number], left, right) not in left_out
        ]
        if not pairs:
            return tuple(merges[part][0] for part in parts)
        _, number = min(pairs)
        if rng.random() < rate:
            left_out.add((starts[number], *parts[number : number + 2]))
        else:
            parts[number : number + 2] = [parts[number] + parts[number + 1]]
