"""Log-probabilities of the next token."""

import functools

from keras import ops

from keras_transformer._backend.indexing import dynamic_shape, gather, largest
from keras_transformer.types import LOWEST_SCORE, SpecialIds, Tensor

# Lower bound of a forced token's log-probability: if the model assigns it no probability, the score of the
# hypothesis must still be comparable with others.
FORCED_LOG_PROBABILITY = -100.0


def _is_possible(log_probabilities: Tensor) -> Tensor:
    """Return which tokens or hypotheses are not forbidden, booleans of the same shape."""
    # Hypotheses add log-probabilities to `LOWEST_SCORE`; the wide gap separates the two.
    return log_probabilities > LOWEST_SCORE / 1e6


def _next_token_log_probabilities(logits: Tensor, special_ids: SpecialIds) -> Tensor:
    """Convert logits `(r, v)` to float32 log-probabilities, `LOWEST_SCORE` for forbidden special tokens."""
    # Padding, the unknown token and the start token are forbidden. Their probability is not redistributed, so
    # that scores remain the model's.
    log_probabilities = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
    banned = _is_banned(ops.arange(logits.shape[-1]), special_ids)
    return ops.where(banned[None, :], LOWEST_SCORE, log_probabilities)


def _best_tokens(logits: Tensor, num_tokens: int, special_ids: SpecialIds) -> tuple[Tensor, Tensor]:
    """Return the `m` largest of `_next_token_log_probabilities` and their int32 ids, both `(r, m)`."""
    # Apart from the model, passes over the vocabulary take most of a step's time. This needs fewer: forbidden
    # tokens are removed afterwards.
    logits = ops.cast(logits, "float32")
    # A separate maximum: XLA sorts the whole vocabulary if only a part of the `top_k` is used.
    top = ops.max(logits, axis=-1, keepdims=True)
    log_total = top + ops.log(ops.sum(ops.exp(logits - top), axis=-1, keepdims=True))
    if num_tokens == 1:
        numbers = ops.arange(dynamic_shape(logits)[-1], dtype="int32")
        banned = ops.cast(_is_banned(numbers, special_ids), "float32")
        allowed = logits + LOWEST_SCORE * banned
        best, ids = largest(allowed)
        return best - log_total, ids
    num_tokens = min(num_tokens, logits.shape[-1])
    best, ids = largest(logits, min(num_tokens + len(_banned_ids(special_ids)), logits.shape[-1]))
    scores = ops.where(_is_banned(ids, special_ids), LOWEST_SCORE, best - log_total)
    scores, order = largest(scores, num_tokens)
    return scores, gather(ids, order, batch_dims=1)


def _banned_ids(special_ids: SpecialIds) -> list[int]:
    # BART and NLLB start from the end token, which must remain allowed.
    return sorted({special_ids.pad, special_ids.unknown, special_ids.start} - {special_ids.end})


def _is_banned(ids: Tensor, special_ids: SpecialIds) -> Tensor:
    return functools.reduce(ops.logical_or, (ops.equal(ids, each) for each in _banned_ids(special_ids)))
