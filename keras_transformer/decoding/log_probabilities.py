"""Log-probabilities of the next token, and the score of a whole hypothesis."""

import math

from keras import ops

from keras_transformer.backend import first_largest, largest, take_each, top_k
from keras_transformer.types import SpecialIds, Tensor

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
    banned = _is_banned(ops.arange(logits.shape[-1]), special_ids)
    return ops.where(banned[None, :], LOWEST_SCORE, log_probabilities)


def best_tokens(logits: Tensor, num_tokens: int, special_ids: SpecialIds) -> tuple[Tensor, Tensor]:
    """Find the most likely tokens that may be generated.

    The same as the largest of `next_token_log_probabilities`, but with fewer passes over
    the vocabulary: what may not be generated is sorted out afterwards.

    Args:
        logits: `(r, v)`.
        num_tokens: how many, `m`; fewer where the vocabulary is smaller.
        special_ids: which tokens are special.

    Returns:
        Float32 log-probabilities, best first, and int32 ids, both `(r, m)`.
    """
    logits = ops.cast(logits, "float32")
    # The maximum by itself: XLA sorts the whole vocabulary if a part of the `top_k` is used alone.
    top = ops.max(logits, axis=-1, keepdims=True)
    log_total = top + ops.log(ops.sum(ops.exp(logits - top), axis=-1, keepdims=True))
    if num_tokens == 1:
        banned = ops.cast(_is_banned(ops.arange(logits.shape[-1]), special_ids), "float32")
        allowed = logits + LOWEST_SCORE * banned
        best = ops.max(allowed, axis=-1, keepdims=True) - log_total
        return best, first_largest(allowed)
    num_tokens = min(num_tokens, logits.shape[-1])
    num_banned = len({special_ids.pad, special_ids.unknown, special_ids.start})
    best, ids = largest(logits, min(num_tokens + num_banned, logits.shape[-1]))
    scores = ops.where(_is_banned(ids, special_ids), LOWEST_SCORE, best - log_total)
    scores, order = top_k(scores, num_tokens)
    return scores, take_each(ids, order)


def _is_banned(ids: Tensor, special_ids: SpecialIds) -> Tensor:
    banned = ops.equal(ids, special_ids.pad)
    for special_id in (special_ids.unknown, special_ids.start):
        banned = ops.logical_or(banned, ops.equal(ids, special_id))
    return banned


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
    """Refuse a length penalty that is negative or no finite number.

    Args:
        alpha: the value received.

    Raises:
        ValueError: it is below zero: then a search could not know when to stop; or not finite.
    """
    if not 0 <= alpha < math.inf:
        raise ValueError(
            f"`length_penalty` must be finite and not negative. Received: length_penalty={alpha}."
        )
