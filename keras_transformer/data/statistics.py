"""How well the batches of a dataset are filled."""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_transformer.types import SPECIAL_IDS


@dataclasses.dataclass(frozen=True, kw_only=True)
class _BatchStatistics:
    """Counts of one epoch; `str()` makes a report of one line."""

    num_batches: int
    """Batches of the epoch, which are its steps."""
    num_pairs: int
    """Pairs of all batches; rows without a token are none."""
    num_source_tokens: int
    """Source tokens, without padding."""
    num_target_tokens: int
    """Label tokens, without padding."""
    source_padding: float
    """Part of the source positions that is padding, 0 to 1."""
    target_padding: float
    """Part of the label positions that is padding, 0 to 1."""
    max_batch_tokens: int
    """Positions of the largest matrix of a batch, padding included."""

    @property
    def target_tokens_per_batch(self) -> float:
        """Label tokens of an average batch, without padding."""
        return self.num_target_tokens / self.num_batches

    def __str__(self) -> str:
        return (
            f"{self.num_pairs:,} pairs in {self.num_batches:,} batches; "
            f"{self.target_tokens_per_batch:,.0f} target tokens a batch, at most "
            f"{self.max_batch_tokens:,} positions; padding {self.source_padding:.1%} of the source, "
            f"{self.target_padding:.1%} of the target"
        )


def batch_statistics(dataset: tf.data.Dataset) -> _BatchStatistics:
    """Count the tokens and the padding of one iteration over a dataset.

    The iteration counts as an epoch of a shuffled dataset. Measure one of `shuffle=False`, which
    has the same batch sizes, where the order of a training run must not move.

    Args:
        dataset: a dataset as `translation_dataset` makes it.

    Returns:
        Counts as attributes, such as `num_pairs`, `source_padding` and `target_tokens_per_batch`; `str()`
        makes a report of one line.

    Raises:
        ValueError: the dataset has no batch.
    """
    rows = []
    for inputs, labels, *_ in dataset.as_numpy_iterator():  # labels (b, t)
        source = inputs["encoder_token_ids"]  # (b, s)
        pairs = (labels != SPECIAL_IDS.pad).any(axis=1)  # (b,)
        num_tokens = [np.count_nonzero(token_ids != SPECIAL_IDS.pad) for token_ids in (source, labels)]
        rows.append((pairs.sum(), source.size, num_tokens[0], labels.size, num_tokens[1]))
    if not rows:
        raise ValueError("`dataset` must have at least one batch. Received: 0 batches.")
    counts = np.asarray(rows, np.int64)  # (number of batches, 5)
    num_pairs, source_size, source_tokens, target_size, target_tokens = counts.sum(axis=0).tolist()
    return _BatchStatistics(
        num_batches=len(rows),
        num_pairs=num_pairs,
        num_source_tokens=source_tokens,
        num_target_tokens=target_tokens,
        source_padding=1 - source_tokens / source_size,
        target_padding=1 - target_tokens / target_size,
        max_batch_tokens=int(counts[:, [1, 3]].max()),
    )
