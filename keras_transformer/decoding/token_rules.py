"""Rules over one step's scores: which tokens may follow the tokens so far, and which are made less likely."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_transformer.decoding.scores import LOWEST_SCORE
from keras_transformer.types import Tensor

# What a token that must be taken costs at most: a model may give it no chance at all, and then the
# hypothesis must still be one, which has a score that others can be compared with.
FORCED_LOG_PROBABILITY = -100.0


def is_possible(log_probabilities: Tensor) -> Tensor:
    """Tell log-probabilities of some probability from those of what is forbidden.

    Args:
        log_probabilities: of any shape, of tokens or of whole hypotheses.

    Returns:
        A boolean tensor of the same shape.
    """
    # Hypotheses add what the model gave to `LOWEST_SCORE`, so a wide gap separates the two.
    return log_probabilities > LOWEST_SCORE / 1e6


def keep_only(log_probabilities: Tensor, token_ids: Tensor | int) -> Tensor:
    """Forbid every token but one, which keeps the log-probability of the model.

    Args:
        log_probabilities: `(r, v)`.
        token_ids: integers `(r, 1)`, the token that each row must take; or one id for all.

    Returns:
        Float `(r, v)`. The token that is left costs at most `FORCED_LOG_PROBABILITY`.
    """
    is_kept = ops.equal(ops.arange(log_probabilities.shape[-1]), token_ids)
    return ops.where(is_kept, ops.maximum(log_probabilities, FORCED_LOG_PROBABILITY), LOWEST_SCORE)


def forbid(log_probabilities: Tensor, forbidden: Tensor, end_id: int) -> Tensor:
    """Forbid tokens; a row in which nothing is left may end, whatever forbids it.

    Args:
        log_probabilities: `(r, v)`.
        forbidden: bool `(r, v)` or `(1, v)`.
        end_id: the token that ends a hypothesis.

    Returns:
        Float `(r, v)`.
    """
    allowed = ops.where(forbidden, LOWEST_SCORE, log_probabilities)
    has_choice = ops.any(is_possible(allowed), axis=-1, keepdims=True)  # (r, 1)
    return ops.where(has_choice, allowed, keep_only(log_probabilities, end_id))


def banned_tokens(token_ids: Sequence[int], vocabulary_size: int, end_id: int) -> Tensor:
    """Mark tokens that are never generated.

    Args:
        token_ids: the tokens.
        vocabulary_size: the number of ids, `v`.
        end_id: the token that ends a hypothesis.

    Returns:
        bool `(1, v)`.

    Raises:
        ValueError: a token is the end token, or not in the vocabulary.
    """
    for token_id in token_ids:
        if token_id >= vocabulary_size or token_id == end_id:
            raise ValueError(
                "`banned_token_ids` must be in the vocabulary and not the end token. Received: "
                f"{token_id} in banned_token_ids, vocabulary_size={vocabulary_size}, end={end_id}."
            )
    return ops.convert_to_tensor(np.isin(np.arange(vocabulary_size), token_ids)[None, :])


def penalize_repetition(
    log_probabilities: Tensor, history: Tensor, position: Tensor | int, penalty: float
) -> Tensor:
    """Make the tokens that a row has generated less likely; Keskar et al. 2019 ("CTRL"), section 4.1.

    A positive value is divided by the penalty, a negative one multiplied with it. A log-probability is
    never positive, so here a token as likely as `p` becomes as likely as `p ** penalty`, without
    sharing out what it lost. The tokens of the source do not count.

    Args:
        log_probabilities: `(r, v)`; logits will do as well.
        history: integers `(r, T)`, of which the first `position` were generated.
        position: an integer scalar.
        penalty: above 1 against repetition, below 1 for it.

    Returns:
        Float `(r, v)`.
    """
    seen = repeated_ngrams(history, position, 1, log_probabilities.shape[-1])
    factor = ops.where(log_probabilities > 0, 1.0 / penalty, penalty)
    return ops.where(seen, log_probabilities * factor, log_probabilities)


def repeated_ngrams(history: Tensor, position: Tensor | int, size: int, vocabulary_size: int) -> Tensor:
    """Find the tokens that would complete an n-gram that a row already has.

    Args:
        history: integers `(r, T)`, of which the first `position` were generated.
        position: an integer scalar.
        size: tokens of an n-gram; with 1, every token that was generated is found.
        vocabulary_size: the number of ids, `v`.

    Returns:
        bool `(r, v)`.
    """
    history, position = ops.cast(history, "int32"), ops.cast(position, "int32")
    # Windows that begin near the end hang over it; none of them is complete.
    num_windows = ops.shape(history)[1]
    history = ops.pad(history, ((0, 0), (0, size - 1)))
    last = ops.arange(num_windows, dtype="int32") + size - 1  # where the n-gram of each window ends
    repeats = ops.broadcast_to(last < position, ops.shape(history[:, :num_windows]))
    for place in range(size - 1):
        # Before there are as many tokens no window is complete, so the bound changes nothing.
        current = ops.take(history, ops.maximum(position - size + 1 + place, 0), axis=1)  # (r,)
        same = ops.equal(history[:, place : place + num_windows], current[:, None])
        repeats = ops.logical_and(repeats, same)
    return _mark(history[:, size - 1 :], repeats, vocabulary_size)


def _mark(token_ids: Tensor, is_marked: Tensor, vocabulary_size: int) -> Tensor:
    """Turn tokens `(r, m)`, some of them marked, into the rows of a vocabulary, bool `(r, v)`."""
    rows = ops.arange(ops.shape(token_ids)[0], dtype="int32")
    rows = ops.broadcast_to(rows[:, None], ops.shape(token_ids))
    columns = ops.where(is_marked, token_ids, vocabulary_size)  # what is not marked goes behind the end
    indices = ops.reshape(ops.stack([rows, columns], axis=-1), (-1, 2))
    nothing = ops.zeros((ops.shape(token_ids)[0], vocabulary_size + 1), "float32")
    ones = ops.ones_like(indices[:, 0], dtype="float32")
    return ops.scatter_update(nothing, indices, ones)[:, :vocabulary_size] > 0
