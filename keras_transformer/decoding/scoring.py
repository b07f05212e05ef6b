"""How likely given targets are: the sums of a search, of sequences that somebody else chose."""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from keras_transformer.decoding.log_probabilities import length_penalty
from keras_transformer.decoding.search import Search
from keras_transformer.types import Tensor


class TeacherForcing(NamedTuple):
    """A target, shifted by one token."""

    inputs: dict[str, Tensor]
    """What the model is called with; its decoder reads `(b, t - 1)`."""
    target_ids: Tensor
    """int32 `(b, t - 1)`, what it has to predict."""


def teacher_forcing(
    encoder_inputs: Tensor, decoder_token_ids: Tensor, padding_mask: Tensor | None = None
) -> TeacherForcing:
    """Make the inputs of a model from a source and a whole target.

    Args:
        encoder_inputs: token ids `(b, s)`; or features `(b, s, w)`.
        decoder_token_ids: integers `(b, t)`, the start token first, padded with 0.
        padding_mask: `(b, s)`, True (1) where features have a frame; None for ids, or if every frame
            counts.

    Returns:
        The inputs, and the tokens that each position of the decoder has to predict.

    Raises:
        TypeError: targets that are not integers.
        ValueError: targets of another rank, or without a token after the first.
    """
    encoder_inputs, ids = ops.convert_to_tensor(encoder_inputs), ops.convert_to_tensor(decoder_token_ids)
    _check_targets(ids)
    ids = ops.cast(ids, "int32")
    inputs: dict[str, Any] = {"decoder_token_ids": ids[:, :-1]}
    if len(encoder_inputs.shape) == 2:
        return TeacherForcing({"encoder_token_ids": encoder_inputs, **inputs}, ids[:, 1:])
    if padding_mask is not None:
        inputs["encoder_padding_mask"] = padding_mask
    return TeacherForcing({"encoder_features": encoder_inputs, **inputs}, ids[:, 1:])


def _check_targets(ids: Tensor) -> None:
    shape = tuple(ids.shape)
    if "int" not in str(ids.dtype):
        raise TypeError(f"`decoder_token_ids` must be integers. Received: dtype={ids.dtype}.")
    if len(shape) != 2 or (isinstance(shape[1], int) and shape[1] < 2):
        raise ValueError(
            "`decoder_token_ids` must have the shape (b, t), the start token and at least one more. "
            f"Received: shape={shape}."
        )


def align_targets(
    model: Any,
    encoder_inputs: Tensor,
    decoder_token_ids: Tensor,
    layer: int = -1,
    padding_mask: Tensor | None = None,
    pad_id: int = 0,
) -> Tensor:
    """Read the cross-attention of a source and a given target.

    One teacher-forced pass over a hypothesis gives what was computed while it was generated, so a
    search need not carry attention along. Attention shows where a model looked, which often, but not
    always, is the translation of the token. The last layer is the default, since it decides; in deep
    models the last but one (-2) tends to align better.

    Args:
        model: a `Transformer` with weights.
        encoder_inputs: as for `Transformer.encode`.
        decoder_token_ids: integers `(b, t)`: the start token, the tokens, usually the end token, and
            padding.
        layer: which decoder layer, from 0; negative numbers count from the last.
        padding_mask: `(b, s)`, True (1) where features have a frame; None for ids.
        pad_id: what fills the rows.

    Returns:
        float32 `(b, t - 1, s)`: row `i` belongs to the token that follows position `i`, so the start
        token has none. The mean over the heads: a row sums to 1, and is 0 where there is padding.

    Raises:
        TypeError: targets that are not integers.
        ValueError: targets of another rank, or without a token after the first; no such layer.

    Example:
        >>> from keras_transformer.models import Transformer
        >>> model = Transformer(9, 11, num_layers=2, hidden_dim=8, num_heads=2, intermediate_dim=16)
        >>> tuple(align_targets(model, [[4, 5, 3]], [[2, 7, 9, 6, 3]]).shape)
        (1, 4, 3)
    """
    inputs, target_ids = teacher_forcing(encoder_inputs, decoder_token_ids, padding_mask)
    scores = model.attention_scores(inputs)
    attention = scores[_layer_name(scores, layer)]  # (b, h, t - 1, s)
    attention = ops.mean(ops.cast(attention, "float32"), axis=1)  # (b, t - 1, s)
    is_token = ops.not_equal(target_ids, pad_id)
    return ops.where(is_token[..., None], attention, 0.0)


def _layer_name(scores: dict[str, Tensor], layer: int) -> str:
    """Find the name of a decoder layer's cross-attention; its layers are counted from 1."""
    num_layers = sum(name.startswith("decoder/") and name.endswith("/cross_attention") for name in scores)
    if not -num_layers <= layer < num_layers:
        raise ValueError(
            f"`layer` must be one of the {num_layers} layers of the decoder. Received: layer={layer}."
        )
    return f"decoder/layer_{layer % num_layers + 1}/cross_attention"


class TargetScores(NamedTuple):
    """The log-probabilities of targets."""

    log_probabilities: Tensor
    """float32 `(b,)`: the sum over the tokens, not divided by anything."""
    num_tokens: Tensor
    """int32 `(b,)`: the tokens that were summed, the end token included if it is there."""


def score_targets(
    model: Callable[[dict[str, Tensor]], Any],
    encoder_inputs: Tensor,
    decoder_token_ids: Tensor,
    padding_mask: Tensor | None = None,
    pad_id: int = 0,
) -> TargetScores:
    """Score targets in one teacher-forced pass.

    The sums are those of a search: divided by its length penalty, the score of a hypothesis is the
    one that the search gave. A search never generates the unknown token; here it has the probability
    that the model gives it.

    Args:
        model: a `Transformer`, or any function of its inputs that gives logits `(b, t, v)`.
        encoder_inputs: as for `Transformer.encode`.
        decoder_token_ids: integers `(b, t)`: the start token, the tokens, usually the end token, and
            padding.
        padding_mask: `(b, s)`, True (1) where features have a frame; None for ids.
        pad_id: what fills the rows; it is not scored.

    Returns:
        Log-probabilities `(b,)` and numbers of tokens `(b,)`.

    Raises:
        TypeError: targets that are not integers.
        ValueError: targets of another rank, or without a token after the first.

    Example:
        >>> from keras_transformer.models import Transformer
        >>> model = Transformer(9, 11, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16)
        >>> scores = score_targets(model, [[4, 5, 3]], [[2, 7, 9, 3, 0]])
        >>> int(scores.num_tokens[0])
        3
    """
    inputs, target_ids = teacher_forcing(encoder_inputs, decoder_token_ids, padding_mask)
    logits = model(inputs)  # (b, t - 1, v)
    log_probabilities = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
    chosen = ops.take_along_axis(log_probabilities, target_ids[..., None], axis=-1)[..., 0]  # (b, t - 1)
    is_token = ops.not_equal(target_ids, pad_id)
    return TargetScores(
        # Not a product: an impossible token may have minus infinity where there is padding.
        log_probabilities=ops.sum(ops.where(is_token, chosen, 0.0), axis=1),
        num_tokens=ops.sum(ops.cast(is_token, "int32"), axis=1),
    )


def normalized(scores: TargetScores, search: Search) -> Tensor:
    """Divide log-probabilities as a search does.

    A coverage penalty is not in the result: it belongs to the attention of a search on its way.

    Args:
        scores: of targets.
        search: whose length penalty is meant; one without any divides by nothing.

    Returns:
        float32 `(b,)`.
    """
    alpha: float = getattr(search, "length_penalty", 0.0)
    return scores.log_probabilities / length_penalty(scores.num_tokens, alpha)
