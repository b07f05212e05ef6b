"""Which source tokens a model looked at when it predicted each target token."""

from typing import Any

from keras import ops

from keras_transformer.decoding.teacher_forcing import teacher_forcing
from keras_transformer.types import Tensor


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
