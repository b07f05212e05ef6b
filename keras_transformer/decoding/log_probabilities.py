"""Log-probabilities of the next token."""

import numpy as np
from keras import ops

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
    # Padding, the unknown token and the start token are forbidden. BART and NLLB start from the end token,
    # which stays allowed. The probability of forbidden tokens is not redistributed, so that scores remain the
    # model's.
    log_probabilities = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
    forbidden = {special_ids.pad, special_ids.unknown, special_ids.start} - {special_ids.end}
    return ops.where(_banned_tokens(tuple(forbidden), logits.shape[-1]), LOWEST_SCORE, log_probabilities)


def _banned_tokens(token_ids: tuple[int, ...], vocabulary_size: int) -> Tensor:
    """Return a mask of the banned tokens, bool `(1, v)`."""
    return ops.convert_to_tensor(np.isin(np.arange(vocabulary_size), token_ids)[None, :])
