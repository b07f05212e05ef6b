"""Log-probabilities of the next token, and the length penalty."""

import functools
from typing import Literal, TypeAlias

from keras import ops

from keras_transformer._backend.gather import largest, shape_of, take
from keras_transformer.types import LOWEST_SCORE, SpecialIds, Tensor

# The least that a token which must be generated counts: a model may give it no probability at all, and then
# the hypothesis still needs a score that others can be compared with.
FORCED_LOG_PROBABILITY = -100.0

LengthNormalization: TypeAlias = Literal["gnmt", "length", "generated_length"]


def _is_possible(log_probabilities: Tensor) -> Tensor:
    """Return where tokens or whole hypotheses are not forbidden, booleans of the same shape."""
    # Hypotheses add what the model gave to `LOWEST_SCORE`, so a wide gap separates the two.
    return log_probabilities > LOWEST_SCORE / 1e6


def _next_token_log_probabilities(logits: Tensor, special_ids: SpecialIds) -> Tensor:
    """Turn logits `(r, v)` into float32 log-probabilities of tokens that may be generated."""
    # Padding, the unknown token and the start token may not: their probability is lost, not shared among the
    # others, so scores stay those of the model.
    log_probabilities = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
    banned = _is_banned(ops.arange(logits.shape[-1]), special_ids)
    return ops.where(banned[None, :], LOWEST_SCORE, log_probabilities)


def _best_tokens(logits: Tensor, num_tokens: int, special_ids: SpecialIds) -> tuple[Tensor, Tensor]:
    """Find the `m` largest of `_next_token_log_probabilities` and their int32 ids, both `(r, m)`."""
    # Next to the model, most of the time of a step goes into passes over the vocabulary. This needs fewer:
    # what may not be generated is sorted out afterwards.
    logits = ops.cast(logits, "float32")
    # The maximum by itself: XLA sorts the whole vocabulary if a part of the `top_k` is used alone.
    top = ops.max(logits, axis=-1, keepdims=True)
    log_total = top + ops.log(ops.sum(ops.exp(logits - top), axis=-1, keepdims=True))
    if num_tokens == 1:
        numbers = ops.arange(shape_of(logits)[-1], dtype="int32")
        banned = ops.cast(_is_banned(numbers, special_ids), "float32")
        allowed = logits + LOWEST_SCORE * banned
        best, ids = largest(allowed)
        return best - log_total, ids
    num_tokens = min(num_tokens, logits.shape[-1])
    best, ids = largest(logits, min(num_tokens + len(_banned_ids(special_ids)), logits.shape[-1]))
    scores = ops.where(_is_banned(ids, special_ids), LOWEST_SCORE, best - log_total)
    scores, order = largest(scores, num_tokens)
    return scores, take(ids, order, batch_dims=1)


def _banned_ids(special_ids: SpecialIds) -> list[int]:
    # BART and NLLB start from the end token, which ends a hypothesis all the same.
    return sorted({special_ids.pad, special_ids.unknown, special_ids.start} - {special_ids.end})


def _is_banned(ids: Tensor, special_ids: SpecialIds) -> Tensor:
    return functools.reduce(ops.logical_or, (ops.equal(ids, each) for each in _banned_ids(special_ids)))


def _length_penalty(
    length: Tensor | int, alpha: Tensor | float, normalization: LengthNormalization
) -> Tensor:
    """Compute what scores are divided by; the end token counts."""
    length = ops.cast(length, "float32")
    # An output without a token would divide by 0.
    base = (5.0 + length) / 6.0 if normalization == "gnmt" else ops.maximum(length, 1.0)
    return ops.power(base, alpha)
