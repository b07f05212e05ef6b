"""Log-probabilities of the next token, and the score of a whole hypothesis."""

from keras import ops

from keras_transformer.decoding.contract import SpecialIds
from keras_transformer.types import Tensor

# Stands for a log-probability of minus infinity: sums of it stay finite.
LOWEST_SCORE = -1e30


def next_token_log_probabilities(logits: Tensor, special_ids: SpecialIds) -> Tensor:
    """Turn logits into log-probabilities of tokens that may be generated.

    Padding, the unknown token and the start token may not: their probability
    is lost, not shared among the others, so scores stay those of the model.

    Args:
        logits: `(n, v)`.
        special_ids: which tokens are special.

    Returns:
        A float32 tensor `(n, v)`.
    """
    log_probabilities = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
    ids = ops.arange(logits.shape[-1])
    banned = ops.zeros_like(ids, dtype="bool")
    for special_id in (special_ids.pad, special_ids.unknown, special_ids.start):
        banned = ops.logical_or(banned, ops.equal(ids, special_id))
    return ops.where(banned[None, :], LOWEST_SCORE, log_probabilities)


def length_penalty(length: Tensor | int, alpha: float) -> Tensor:
    """Compute what a log-probability is divided by.

    `((5 + length) / 6) ** alpha`, Wu et al. 2016 ("GNMT"), section 7.

    Args:
        length: tokens of the hypothesis, the end token included.
        alpha: 0 for no penalty; larger favours longer hypotheses.

    Returns:
        A float32 tensor of the shape of `length`.
    """
    return ops.power((5.0 + ops.cast(length, "float32")) / 6.0, alpha)


def check_length_penalty(alpha: float) -> None:
    """Refuse a negative length penalty.

    Args:
        alpha: the value received.

    Raises:
        ValueError: it is below zero: then a search could not know when to stop.
    """
    if alpha < 0:
        raise ValueError(f"`length_penalty` must not be negative. Received: length_penalty={alpha}.")
