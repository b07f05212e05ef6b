"""Scores and alignments of given targets, by one teacher-forced pass."""

from collections.abc import Callable
from numbers import Integral
from typing import NamedTuple

import keras
from keras import ops

from keras_transformer._arguments import check_kind, check_number, known_values
from keras_transformer.models.ensemble import Ensemble
from keras_transformer.models.transformer import Transformer
from keras_transformer.types import SpecialIds, Tensor


class _TargetScores(NamedTuple):
    """The log-probabilities of targets."""

    log_probabilities: Tensor
    """float32 `(b,)`: the sum over the tokens, not divided by anything."""
    num_tokens: Tensor
    """int32 `(b,)`: the tokens that were summed, the end token included if it is there."""


class _TokenScores(NamedTuple):
    """The log-probability of each token of targets, and the most likely tokens in its place."""

    log_probabilities: Tensor
    """float32 `(b, t)`: 0 where there is padding or a given token. Their sum is that of the target."""
    is_scored: Tensor
    """boolean `(b, t)`: True where there is a token that is not given."""
    alternative_ids: Tensor
    """int32 `(b, t, k)`: the most likely tokens after the tokens before, best first; padding where nothing is
    scored."""
    alternative_log_probabilities: Tensor
    """float32 `(b, t, k)`: theirs, 0 where nothing is scored."""


def score_targets(
    model: Callable[[dict[str, Tensor]], Tensor],
    inputs: Tensor,
    target_ids: Tensor,
    padding_mask: Tensor | None = None,
    *,
    special_ids: SpecialIds,
    num_given: Tensor | None = None,
) -> _TargetScores:
    """Compute the log-probabilities of targets.

    Divided by the length penalty, that of a hypothesis is the score which the search gave. A search never
    generates the unknown token; here it has the probability that the model gives it.

    Args:
        model: a `Transformer`, or any function of its inputs that returns logits `(b, t, v)`.
        inputs: sources, as for `generate`.
        target_ids: integers `(b, t)` as in a `SearchResult`: without the start token, usually with the end
            token, then padding, which is not scored.
        padding_mask: `(b, s)`, True (1) where features have a frame; None for ids.
        special_ids: the special tokens of the target.
        num_given: integers `(b,)`: so many tokens at the front of each target are not scored; None for 0.

    Returns:
        Log-probabilities `(b,)` and numbers of tokens `(b,)`.

    Raises:
        TypeError: If targets are not integers.
        ValueError: If targets have another rank, no token, or begin with the start token.

    Example:
        >>> from keras_transformer.models import Transformer
        >>> model = Transformer(9, 11, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16)
        >>> int(score_targets(model, [[4, 5, 3]], [[7, 9, 3, 0]], special_ids=SpecialIds()).num_tokens[0])
        3
    """
    found = score_tokens(
        model,
        inputs,
        target_ids,
        padding_mask,
        special_ids=special_ids,
        num_given=num_given,
        num_alternatives=0,
    )
    return _TargetScores(
        log_probabilities=ops.sum(found.log_probabilities, axis=1),
        num_tokens=ops.sum(ops.cast(found.is_scored, "int32"), axis=1),
    )


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
    """Compute the log-probability of each token of targets, with the most likely tokens in its place.

    Args:
        model: As for `score_targets`.
        inputs: As for `generate`.
        target_ids: As for `score_targets`.
        padding_mask: As for `score_targets`.
        special_ids: The special tokens of the target.
        num_given: As for `score_targets`.
        num_alternatives: Number of most likely tokens for each position, `k`. The token of the target is
            among them where it is likely enough. 0 for none; a smaller vocabulary has no more.

    Returns:
        Log-probabilities of the tokens `(b, t)`, and `k` token ids with theirs for each.

    Raises:
        TypeError: If targets are not integers.
        ValueError: If targets have another rank, no token, or begin with the start token; if
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
    # (b, t, v) -> (b, t, k); k of 0 is no `top_k` of every backend
    if num_alternatives:
        best, best_ids = ops.top_k(log_probabilities, min(num_alternatives, logits.shape[-1]))
    else:
        best, best_ids = log_probabilities[..., :0], target_ids[..., None][..., :0]
    return _TokenScores(
        # Not a product: an impossible token may have minus infinity where there is padding.
        log_probabilities=ops.where(is_scored, chosen, 0.0),
        is_scored=is_scored,
        alternative_ids=ops.where(is_scored[..., None], ops.cast(best_ids, "int32"), special_ids.pad),
        alternative_log_probabilities=ops.where(is_scored[..., None], best, 0.0),
    )


def align_targets(
    model: Transformer | Ensemble,
    inputs: Tensor,
    target_ids: Tensor,
    layer: int = -1,
    padding_mask: Tensor | None = None,
    *,
    special_ids: SpecialIds,
) -> Tensor:
    """Read the cross-attention of sources and given targets.

    One teacher-forced pass over a hypothesis gives what was computed while it was generated, so a search need
    not carry attention along. Attention shows where a model looked, which often, but not always, is the
    translation of the token. The last layer is the default, since it decides; in deep models the last but one
    (-2) tends to align better.

    Args:
        model: a `Transformer` or an `Ensemble` with weights.
        inputs: sources, as for `generate`.
        target_ids: as for `score_targets`.
        layer: the decoder layer, from 0; negative numbers count from the last.
        padding_mask: as for `score_targets`.
        special_ids: the special tokens of the target.

    Returns:
        float32 `(b, t, s)`: row `i` belongs to token `i` of the target. The mean over the heads: a row sums
        to 1, and is 0 where there is padding.

    Raises:
        TypeError: If targets are not integers.
        ValueError: If targets have another rank, no token, or begin with the start token; if there is no such
            layer.

    Example:
        >>> from keras_transformer.models import Transformer
        >>> model = Transformer(9, 11, num_layers=2, hidden_dim=8, num_heads=2, intermediate_dim=16)
        >>> tuple(align_targets(model, [[4, 5, 3]], [[7, 9, 6, 3]], special_ids=SpecialIds()).shape)
        (1, 4, 3)
    """
    check_kind(Integral, layer=layer)
    target_ids = _checked_targets(target_ids, special_ids)
    scores = target_attention(model, inputs, target_ids, padding_mask, special_ids=special_ids)
    # (b, h, t, s) -> (b, t, s)
    attention = ops.mean(ops.cast(scores[_layer_name(scores, layer)], "float32"), axis=1)
    is_token = ops.not_equal(target_ids, special_ids.pad)
    return ops.where(is_token[..., None], attention, 0.0)


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
        model: a `Transformer` or an `Ensemble` with weights.
        inputs: sources, as for `generate`.
        target_ids: as for `score_targets`.
        padding_mask: as for `score_targets`.
        special_ids: the special tokens of the target.

    Returns:
        What `model.attention_scores` returns: `(b, h, t, s)` by names such as
        `decoder/layer_1/cross_attention`. A row of the decoder belongs to the token that it predicts.
    """
    if not hasattr(model, "attention_scores"):
        raise TypeError(
            f"`model` must show its attention, as a `Transformer` does. Received: model={model!r:.200}."
        )
    return model.attention_scores(_teacher_forcing(inputs, target_ids, padding_mask, special_ids))


def _teacher_forcing(
    inputs: Tensor, target_ids: Tensor, padding_mask: Tensor | None, special_ids: SpecialIds
) -> dict[str, Tensor]:
    """Return the inputs of a model that predicts each token of a target from those before it."""
    inputs = ops.convert_to_tensor(inputs)
    start = ops.full_like(target_ids[:, :1], special_ids.start)
    decoder = {"decoder_token_ids": ops.concatenate([start, target_ids[:, :-1]], axis=1)}
    if len(inputs.shape) == 2:
        return {"encoder_token_ids": inputs, **decoder}
    mask = {} if padding_mask is None else {"encoder_padding_mask": padding_mask}
    return {"encoder_features": inputs, **mask, **decoder}


def _checked_targets(target_ids: Tensor, special_ids: SpecialIds) -> Tensor:
    """Return targets as int32."""
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
    # Where decoding starts from the end token, that is the empty target.
    values = known_values(target_ids) if special_ids.start != special_ids.end else None
    if values is not None and (values[:, 0] == special_ids.start).any():
        raise ValueError(
            f"`target_ids` must not begin with the start token. Received: target_ids={values.tolist()}."
        )
    return ops.cast(target_ids, "int32")


def _layer_name(scores: dict[str, Tensor], layer: int) -> str:
    """Find the name of a decoder layer's cross-attention; names count layers from 1."""
    num_layers = sum(name.startswith("decoder/") and name.endswith("/cross_attention") for name in scores)
    if not -num_layers <= layer < num_layers:
        raise ValueError(
            f"`layer` must be one of the {num_layers} layers of the decoder. Received: layer={layer}."
        )
    return f"decoder/layer_{layer % num_layers + 1}/cross_attention"
