"""What `training.py` measures: shapes, their data and their arithmetic. Imports no engine."""

from typing import NamedTuple

import numpy as np

DROPOUT, LABEL_SMOOTHING, LEARNING_RATE = 0.1, 0.1, 1e-4
START, FIRST_TOKEN = 2, 4


class Shape(NamedTuple):
    """A post-norm encoder-decoder and its batch; source and target have tables of their own."""

    num_layers: int
    hidden_dim: int
    intermediate_dim: int
    num_heads: int
    vocabulary: int
    batch: int
    length: int

    @property
    def tokens(self) -> int:
        """Target tokens of a batch, and source tokens as well."""
        return self.batch * self.length

    @property
    def flops(self) -> int:
        """Floating-point operations of the matrix products of a step.

        A product of `(m, k)` and `(k, n)` counts `2 m k n`; the backward pass has two for each of the
        forward pass. Everything else (softmax, normalization, dropout, Adam) counts nothing.
        """
        d, inner = self.hidden_dim, self.intermediate_dim
        attention = 4 * d * d + 2 * self.length * d  # the four projections; scores and their values
        feed_forward = 2 * d * inner
        encoder, decoder = attention + feed_forward, 2 * attention + feed_forward
        multiplications = self.num_layers * (encoder + decoder) + d * self.vocabulary
        return 3 * 2 * self.tokens * multiplications


SHAPES = {
    "mini": Shape(1, 16, 32, 2, 50, 4, 5),
    "tiny": Shape(4, 128, 256, 4, 9_800, 128, 16),
    "words": Shape(4, 128, 512, 4, 50, 380, 8),
    "small": Shape(3, 256, 1024, 8, 8_000, 64, 32),
    "base": Shape(6, 512, 2048, 8, 8_000, 16, 32),
}


class Batch(NamedTuple):
    """Token ids, int32 (b, t) each; none is padding."""

    source: np.ndarray
    target: np.ndarray
    labels: np.ndarray


def random_batches(shape: Shape, num_batches: int, seed: int) -> list[Batch]:
    """Draw token ids.

    Args:
        shape: whose batch and vocabulary are used.
        num_batches: how many.
        seed: another one, other ids.

    Returns:
        batches.
    """
    rng = np.random.default_rng(seed)
    size = (num_batches, shape.batch, shape.length)
    sources, labels = rng.integers(FIRST_TOKEN, shape.vocabulary, (2, *size), dtype="int32")
    targets = np.concatenate([np.full_like(labels[..., :1], START), labels[..., :-1]], axis=-1)
    return [Batch(*arrays) for arrays in zip(sources, targets, labels, strict=True)]
