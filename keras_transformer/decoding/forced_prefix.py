"""Answers that begin as they are told to."""

from keras import ops

from keras_transformer.decoding.contract import SpecialIds
from keras_transformer.decoding.token_rules import keep_only
from keras_transformer.types import Tensor


def force_prefix(
    log_probabilities: Tensor,
    prefix_ids: Tensor,
    position: Tensor | int,
    special_ids: SpecialIds | None = None,
    allowed: Tensor | None = None,
) -> Tensor:
    """Allow only the prefix's token, as long as a row has one for this position.

    The token keeps the log-probability that the model gives it, so the score of an answer stays that
    of the model, the prefix included, whatever rules there are for the tokens after it. One that the
    model gives no chance, or that is never generated, such as the unknown token, counts
    `FORCED_LOG_PROBABILITY`.

    Args:
        log_probabilities: `(r, v)`, the model's own.
        prefix_ids: integers `(r, p)`, without the start token, padded on the right.
        position: an integer scalar, 0 for the first token.
        special_ids: which token is padding.
        allowed: `(r, v)`, after every other rule: a prefix overrules them; None where there are none.

    Returns:
        Float `(r, v)`; rows whose prefix is over as they are in `allowed`.

    Raises:
        ValueError: prefixes of another rank, or of an unknown length.

    Example:
        >>> forced = force_prefix(ops.log([[0.1, 0.2, 0.3, 0.4]]), ops.convert_to_tensor([[2]]), 0)
        >>> int(ops.argmax(forced))
        2
    """
    if len(prefix_ids.shape) != 2 or prefix_ids.shape[1] is None:
        raise ValueError(
            f"`prefix_ids` must have shape (r, p), p a known number. "
            f"Received: shape={tuple(prefix_ids.shape)}."
        )
    pad, length = (special_ids or SpecialIds()).pad, prefix_ids.shape[1]
    allowed = log_probabilities if allowed is None else allowed
    if not length:
        return allowed
    position = ops.cast(position, "int32")
    token_ids = ops.take(ops.cast(prefix_ids, "int32"), ops.minimum(position, length - 1), axis=1)[:, None]
    is_forced = ops.logical_and(position < length, ops.not_equal(token_ids, pad))  # (r, 1)
    return ops.where(is_forced, keep_only(log_probabilities, token_ids), allowed)
