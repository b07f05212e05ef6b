"""Coverage penalty: an answer should have looked at the whole source."""

from keras import ops

from keras_transformer.decoding.validation import check_number
from keras_transformer.types import Tensor

# A source position that was never looked at counts as if it had been, this much: log 0 has no end.
SMALLEST_COVERAGE = 1e-6


def coverage_penalty(attention_sums: Tensor, source_mask: Tensor, beta: float) -> Tensor:
    """Compute what is added to the score of a hypothesis for the source positions it left out.

    `cp(X; Y) = beta * sum_i log(min(sum_j p_ij, 1))`, Wu et al. 2016 ("GNMT"), equation 14, where
    `p_ij` is the attention of the target position `j` to the source position `i`. It is zero where
    each position got as much attention as one target token gives, and negative otherwise.

    Args:
        attention_sums: `(r, s)`, for each source position the attention of all target positions,
            averaged over the heads.
        source_mask: `(r, s)` or `(1, s)`, True (1) where the source has a token; others do not count.
        beta: how much it counts; 0 for nothing.

    Returns:
        float32 `(r,)`, at least `beta * s * log(1e-6)` and at most 0.

    Raises:
        ValueError: a negative `beta`.

    Example:
        >>> penalty = coverage_penalty([[1.5, 0.5, 0.0]], [[True, True, False]], beta=1.0)
        >>> round(float(penalty[0]), 4)  # log 0.5
        -0.6931
    """
    check_number("beta", beta)
    sums = ops.cast(attention_sums, "float32")
    terms = ops.log(ops.clip(sums, SMALLEST_COVERAGE, 1.0))
    return beta * ops.sum(ops.where(ops.cast(source_mask, "bool"), terms, 0.0), axis=-1)
