"""Scores and alignments of given targets, computed in one teacher-forced pass."""

from collections.abc import Callable
from typing import NamedTuple

import keras
from keras import ops

from keras_transformer._arguments import check_kind, check_number, known_values
from keras_transformer.models.ensemble import Ensemble
from keras_transformer.models.transformer import Transformer
from keras_transformer.types import SpecialIds, Tensor


class _TokenScores(NamedTuple):
    """Log-probability of each target token, and the most likely alternatives."""

    log_probabilities: Tensor
    """float32 `(b, t)`: 0 for tokens that are not scored. The sum over `t` is the target's
    log-probability."""
    is_scored: Tensor
    """boolean `(b, t)`: False for padding and the first `num_given` tokens, True for all others."""
    alternative_ids: Tensor
    """int32 `(b, t, k)`: the most likely tokens at each position, best first; padding if not scored."""
    alternative_log_probabilities: Tensor
    """float32 `(b, t, k)`: log-probabilities of `alternative_ids`; 0 if not scored."""


def score_tokens(
    model: Callable[[dict[str, Tensor]], Tensor],
    inputs: Tensor,
    target_ids: Tensor,
    padding_mask: Tensor | None = None,
    *,
    special_ids: SpecialIds,
    num_given: Tensor | None = None,
    num_alternatives: int = 5,
) -> _TokenScores:
    """Return the log-probability of each token of given targets, with the most likely alternatives.

    Their sum, divided by the length penalty, is the score that a search returns. The unknown token, which a
    search never generates, has the probability that the model assigns to it.

    Args:
        model: A `Transformer`, or any function from its inputs to logits `(b, t, v)`.
        inputs: Sources, as for `generate`.
        target_ids: Integers `(b, t)`: targets without the start token, usually with the end token, followed
            by padding. Padding is not scored.
        padding_mask: `(b, s)`, True (1) for frames. Only for features.
        special_ids: Special token ids of the target.
        num_given: Integers `(b,)`: number of tokens at the start of each target to leave unscored. Defaults
            to 0.
        num_alternatives: Number of most likely tokens at each position, `k`, at most the vocabulary size.
            They may include the target's token. Defaults to 5; 0 disables them.

    Returns:
        A named tuple: `log_probabilities` and `is_scored` of the tokens, `(b, t)`; `alternative_ids` and
        `alternative_log_probabilities`, `(b, t, k)`.

    Raises:
        TypeError: If targets are not integers.
        ValueError: If targets have another rank, have no tokens, or begin with the start token, or
            `num_alternatives` is negative.

    Example:
        >>> from keras_transformer.models import Transformer
        >>> model = Transformer(9, 11, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16)
        >>> found = score_tokens(model, [[4, 5, 3]], [[7, 9, 3, 0]], special_ids=SpecialIds())
        >>> tuple(found.log_probabilities.shape), tuple(found.alternative_ids.shape)
        ((1, 4), (1, 4, 5))
    """
    check_number(at_least=0, whole=True, num_alternatives=num_alternatives)
    target_ids = _checked_targets(target_ids, special_ids)
    logits = model(_teacher_forcing(inputs, target_ids, padding_mask, special_ids))
    log_probabilities = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
    # (b, t, v) -> (b, t)
    chosen = ops.take_along_axis(log_probabilities, target_ids[..., None], axis=-1)[..., 0]
    is_scored = ops.not_equal(target_ids, special_ids.pad)
    if num_given is not None:
        positions = ops.arange(ops.shape(target_ids)[1], dtype="int32")
        is_scored = ops.logical_and(is_scored, positions[None, :] >= num_given[:, None])
    # (b, t, v) -> (b, t, k); not every backend has a `top_k` with k = 0
    if num_alternatives:
        best, best_ids = ops.top_k(log_probabilities, min(num_alternatives, logits.shape[-1]))
    else:
        best, best_ids = log_probabilities[..., :0], target_ids[..., None][..., :0]
    return _TokenScores(
        # `where`, not a product: at padding, an impossible token may have minus infinity.
        log_probabilities=ops.where(is_scored, chosen, 0.0),
        is_scored=is_scored,
        alternative_ids=ops.where(is_scored[..., None], ops.cast(best_ids, "int32"), special_ids.pad),
        alternative_log_probabilities=ops.where(is_scored[..., None], best, 0.0),
    )


def target_attention(
    model: Transformer | Ensemble,
    inputs: Tensor,
    target_ids: Tensor,
    padding_mask: Tensor | None = None,
    *,
    special_ids: SpecialIds,
) -> dict[str, Tensor]:
    """Return the attention of every layer and head for sources and given targets.

    Args:
        model: A `Transformer` or an `Ensemble` with weights.
        inputs: Sources, as for `generate`.
        target_ids: As for `score_tokens`.
        padding_mask: As for `score_tokens`.
        special_ids: As for `score_tokens`.

    Returns:
        The dictionary of `model.attention_scores`: `(b, h, t, s)` by names such as
        `decoder/layer_1/cross_attention`. Row `i` of a decoder layer is the attention when target token `i`
        is predicted.

    Raises:
        TypeError: If the model has no `attention_scores`, or targets are not integers.
        ValueError: As for `score_tokens`.
    """
    target_ids = _checked_targets(target_ids, special_ids)
    if not hasattr(model, "attention_scores"):
        raise TypeError(
            f"`model` must show its attention, as a `Transformer` does. Received: model={model!r:.200}."
        )
    return model.attention_scores(_teacher_forcing(inputs, target_ids, padding_mask, special_ids))


def _teacher_forcing(
    inputs: Tensor, target_ids: Tensor, padding_mask: Tensor | None, special_ids: SpecialIds
) -> dict[str, Tensor]:
    """Return the model inputs for predicting each target token from the previous ones."""
    inputs = ops.convert_to_tensor(inputs)
    start = ops.full_like(target_ids[:, :1], special_ids.start)
    decoder = {"decoder_token_ids": ops.concatenate([start, target_ids[:, :-1]], axis=1)}
    if len(inputs.shape) == 2:
        return {"encoder_token_ids": inputs, **decoder}
    mask = {} if padding_mask is None else {"encoder_padding_mask": padding_mask}
    return {"encoder_features": inputs, **mask, **decoder}


def _checked_targets(target_ids: Tensor, special_ids: SpecialIds) -> Tensor:
    """Validate the targets and return them as int32."""
    check_kind(SpecialIds, special_ids=special_ids)
    target_ids = ops.convert_to_tensor(target_ids)
    shape = tuple(target_ids.shape)
    if not keras.backend.is_int_dtype(target_ids.dtype):
        dtype = keras.backend.standardize_dtype(target_ids.dtype)
        raise TypeError(f"`target_ids` must be integers. Received: dtype={dtype}.")
    if len(shape) != 2 or shape[1] == 0:
        raise ValueError(
            f"`target_ids` must have the shape (b, t), with at least one token. Received: shape={shape}."
        )
    # If decoding starts from the end token, a target that begins with it is the empty one.
    values = known_values(target_ids) if special_ids.start != special_ids.end else None
    if values is not None and (values[:, 0] == special_ids.start).any():
        raise ValueError(
            f"`target_ids` must not begin with the start token. Received: target_ids={values.tolist()}."
        )
    return ops.cast(target_ids, "int32")
