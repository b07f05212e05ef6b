"""Noise in training pairs, so that a model learns more from few of them: steps from dataset to dataset.

A step takes token ids of source and target, int32 (b, ragged) each, before special tokens and padding are
added; `translation_dataset(..., noise=[...])` puts it there. The noise of a batch depends on the seed and on
its index in the epoch alone, so a resumed run sees the same; since each epoch has another order, a pair is
changed differently in each.
"""

import itertools
import random
from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf

from keras_transformer._arguments import check_number, check_positive, check_rates
from keras_transformer.data.batching import Transformation
from keras_transformer.text.subword import SubwordTokenizer
from keras_transformer.types import SPECIAL_TOKENS

Change: TypeAlias = Callable[[tf.RaggedTensor, tf.Tensor], tf.RaggedTensor]
"""From token ids int32 (b, ragged) and a seed, int64 (2,), to other token ids."""


def source_noise(drop_rate: float = 0.0, max_shift: int = 0, *, seed: int = 0) -> Transformation:
    """Make a step that drops and moves tokens of the sources (Lample et al. 2018, section 2.3).

    Args:
        drop_rate: the probability that a token is left out. Of each source at least one stays.
        max_shift: the most positions that a token moves.
        seed: of the draws.

    Returns:
        From a dataset of source and target token ids, int32 (b, ragged) each, to the same.

    Raises:
        ValueError: a rate outside [0, 1), or a distance below 0.

    Example:
        >>> ids = tf.ragged.constant([[4, 5, 6, 7], [8]])
        >>> dataset = tf.data.Dataset.from_tensors((ids, ids)).apply(source_noise(drop_rate=0.5))
        >>> [(source, target)] = dataset
        >>> len(source.to_list()), target.to_list()
        (2, [[4, 5, 6, 7], [8]])
    """
    check_rates(drop_rate=drop_rate)
    check_number(max_shift=max_shift, whole=True)

    def change(source: tf.RaggedTensor, draw_seed: tf.Tensor) -> tf.RaggedTensor:
        drop_seed, shift_seed = tf.unstack(tf.random.split(draw_seed, 2))
        return _shift(_drop(source, drop_rate, drop_seed), max_shift, shift_seed)

    return _change_batches((change, None), seed)


def _drop(source: tf.RaggedTensor, rate: float, seed: tf.Tensor) -> tf.RaggedTensor:
    draws = source.with_flat_values(tf.random.stateless_uniform(tf.shape(source.flat_values), seed))
    # The token with the highest draw stays, whatever it is.
    # (b, ragged) -> (b, 1)
    highest = tf.reduce_max(draws, axis=1, keepdims=True)
    return tf.ragged.boolean_mask(source, (draws >= rate) | (draws >= highest))


def _shift(source: tf.RaggedTensor, max_shift: int, seed: tf.Tensor) -> tf.RaggedTensor:
    """Sort each row by the position of a token and a number that is added to it."""
    ids = source.flat_values
    positions = tf.cast(tf.range(tf.size(ids)), tf.float64)
    positions += tf.random.stateless_uniform(tf.shape(ids), seed, 0, max_shift + 1, tf.float64)
    # Rows lie further apart than anything moves.
    positions += tf.cast(source.value_rowids(), tf.float64) * (max_shift + 2)
    return source.with_flat_values(tf.gather(ids, tf.argsort(positions, stable=True)))


def subword_dropout(
    source_tokenizer: SubwordTokenizer | None,
    target_tokenizer: SubwordTokenizer | None,
    rate: float,
    *,
    max_length: int | None = None,
    num_samples: int = 32,
    seed: int = 0,
) -> Transformation:
    """Make a step that splits tokens into smaller ones (Provilkov et al. 2020, section 3.2).

    In the paper merges are left out of words; here out of each piece of a word, so no new piece reaches over
    the border of two old ones. The spellings of each piece are drawn once, and each token of each batch takes
    one of them. Rows get longer, and batches with them.

    Args:
        source_tokenizer: of the sources, of type "bpe"; None leaves them as they are.
        target_tokenizer: of the targets.
        rate: the probability that a merge is left out; 0.1 in the paper.
        max_length: most tokens of a row without its special token; one that would become longer stays as
            it is. None for no limit.
        num_samples: spellings of each piece.
        seed: of all draws.

    Returns:
        From a dataset of source and target token ids, int32 (b, ragged) each, to the same.

    Raises:
        ValueError: a rate outside [0, 1), no samples, or a vocabulary of another type.
    """
    check_rates(rate=rate)
    check_positive(num_samples=num_samples)
    source = _respelling(source_tokenizer, rate, num_samples, max_length, seed)
    same = target_tokenizer is source_tokenizer
    target = source if same else _respelling(target_tokenizer, rate, num_samples, max_length, seed)
    return _change_batches((source, target), seed)


def _change_batches(changes: tuple[Change | None, Change | None], seed: int) -> Transformation:
    """Change the sides of each batch, each with other draws; None leaves a side as it is."""

    @tf.autograph.experimental.do_not_convert
    def change_batch(
        number: tf.Tensor, pair: tuple[tf.RaggedTensor, tf.RaggedTensor]
    ) -> tuple[tf.RaggedTensor, ...]:
        return tuple(
            ids if change is None else change(ids, tf.stack([2 * number + side, seed]))
            for side, (ids, change) in enumerate(zip(pair, changes, strict=True))
        )

    return lambda dataset: dataset.enumerate().map(change_batch, num_parallel_calls=tf.data.AUTOTUNE)


def _respelling(
    tokenizer: SubwordTokenizer | None, rate: float, num_samples: int, max_length: int | None, seed: int
) -> Change | None:
    """Make what takes one of its spellings for each token."""
    if tokenizer is None:
        return None
    spellings = _sample_spellings(tokenizer.proto, rate, num_samples, seed)
    lengths = tf.cast(spellings.row_lengths(), tf.int32)

    def respell(token_ids: tf.RaggedTensor, draw_seed: tf.Tensor) -> tf.RaggedTensor:
        shape = tf.shape(token_ids.flat_values)
        # The spelling 0 is the piece itself, for rows that would become too long.
        draws = tf.random.stateless_uniform(shape, draw_seed, 1, num_samples + 1, tf.int32)
        wholes = token_ids.flat_values * (num_samples + 1)
        if max_length is not None:
            new_lengths = tf.reduce_sum(token_ids.with_values(tf.gather(lengths, wholes + draws)), axis=1)
            draws *= tf.cast(tf.gather(new_lengths <= max_length, token_ids.value_rowids()), tf.int32)
        # (b, ragged, ragged) -> (b, ragged)
        return token_ids.with_values(tf.gather(spellings, wholes + draws)).merge_dims(1, 2)

    return respell


def _sample_spellings(proto: bytes, rate: float, num_samples: int, seed: int) -> tf.RaggedTensor:
    """Spell each of v pieces in other ways: int32 (v * (num_samples + 1), ragged), the piece itself first."""
    # Imported here: other tokenizers need no SentencePiece.
    from sentencepiece import sentencepiece_model_pb2

    # Rejected: SentencePiece's sampling, in Python and in TensorFlow Text, which takes no seed that holds
    # across threads, so a resumed run would not repeat it.
    model = sentencepiece_model_pb2.ModelProto.FromString(proto)
    if model.trainer_spec.model_type != model.trainer_spec.BPE:
        received = model.trainer_spec.ModelType.Name(model.trainer_spec.model_type).lower()
        raise ValueError(
            f"Merges can be left out of a vocabulary of type 'bpe' alone. Received: {received!r}."
        )
    # The id of each piece of text, and its rank among merges: the lowest first.
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
            spellings += [_spell(text, merges, rate, rng) for _ in range(num_samples)]
        else:
            spellings += [(token_id,)] * num_samples
    return tf.ragged.constant(spellings, dtype=tf.int32)


def _spell(
    piece: str, merges: dict[str, tuple[int, float]], rate: float, rng: random.Random
) -> tuple[int, ...]:
    """Merge the characters of a piece, the best pair first; what is left out stays left out."""
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
