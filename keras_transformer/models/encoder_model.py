"""An encoder alone, for tagging, classification and masked-token training."""

from typing import Any

import keras

from keras_transformer.models.config import check_exactly_one, check_options, constructor_arguments
from keras_transformer.models.encoding_model import EncodingModel
from keras_transformer.models.parts import Parts, encoder_parts
from keras_transformer.models.source import source_inputs
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderModel(EncodingModel):
    """A Functional model from token ids or frames to an output for each position, or for each row.

    Tagging: `EncoderModel(v, num_tags)`. Classification:
    `EncoderModel(v, num_classes, pooling="mean")`. The losses of `training` are for
    tags, of which 0 counts as padding unless they get another `pad_id`; classes of rows
    have `keras.losses.SparseCategoricalCrossentropy(from_logits=True)`. Masked-token training, as in
    Devlin et al., "BERT" (2019): `EncoderModel(v, v, tie_output=True)`. Vectors
    for something else: `EncoderModel(v)`.

    Args:
        vocabulary_size: the number of ids, `v`; None for frames.
        num_outputs: logits for each position or row; None for vectors.
        feature_dim: the width of a frame, `w`; None for ids.
        pooling: `mean` of what is no padding, or `first`, for one output a
            row; None for one at each position.
        tie_output: whether the logits use the embedding's table; then there
            are as many of them as ids.
        num_layers: encoder layers.
        hidden_dim: the model width, `d`.
        num_heads: the number of heads, `h`; it must divide `hidden_dim`.
        intermediate_dim: the inner width of the feed-forward networks, `f`.
        dropout: the rate of the dropout on embeddings and sub-layer outputs.
        attention_dropout: the rate of the dropout on the attention scores.
        intermediate_dropout: the rate of the dropout inside the feed-forward networks.
        activation: of the feed-forward networks.
        gated: whether the feed-forward networks are gated; see `layers.FeedForward`.
        norm_first: True for pre-norm, False for the paper's post-norm.
        normalization: `layer` or `rms`.
        layer_norm_epsilon: what normalisation adds to the variance.
        num_key_value_heads: heads of keys and values; `num_heads` if None.
        positions: `sinusoidal`, `learned`, `rotary` or `relative`.
        max_length: the number of learned positions; None for the other kinds.
        **kwargs: `name` and `dtype` of a Keras model.

    Call arguments:
        inputs: token ids, integers `(b, s)`, where 0 is padding; for frames a
            dict of `features` `(b, s, w)` and `padding_mask` `(b, s)`, True
            (1) where there is a frame. Without the mask, or where it is None,
            every frame counts.

    Returns:
        `(b, s, num_outputs)`, or `(b, num_outputs)` with pooling; `d` in place
        of `num_outputs` where that is None.

    Raises:
        ValueError: sizes not above zero, heads that do not divide the width,
            rates outside [0, 1), not exactly one of ids and frames, an unknown
            pooling, a tied output of another size than the vocabulary.

    Example:
        >>> model = EncoderModel(100, 3, pooling="mean", num_layers=1, hidden_dim=8, num_heads=2,
        ...                      intermediate_dim=16)
        >>> tuple(model(keras.ops.ones((2, 5), "int32")).shape)
        (2, 3)
    """

    def __init__(
        self,
        vocabulary_size: int | None = None,
        num_outputs: int | None = None,
        *,
        feature_dim: int | None = None,
        pooling: str | None = None,
        tie_output: bool = False,
        num_layers: int = 6,
        hidden_dim: int = 512,
        num_heads: int = 8,
        intermediate_dim: int = 2048,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        intermediate_dropout: float = 0.0,
        activation: Any = "relu",
        gated: bool = False,
        norm_first: bool = False,
        normalization: str = "layer",
        layer_norm_epsilon: float = 1e-6,
        num_key_value_heads: int | None = None,
        positions: str = "sinusoidal",
        max_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        config = constructor_arguments(locals())
        check_exactly_one(vocabulary_size=vocabulary_size, feature_dim=feature_dim)
        check_options(config, optional=("vocabulary_size", "feature_dim", "num_outputs"))
        if tie_output and (num_outputs is None or num_outputs != vocabulary_size):
            raise ValueError(
                "`tie_output` needs `num_outputs` to be `vocabulary_size`. Received: "
                f"num_outputs={num_outputs}, vocabulary_size={vocabulary_size}."
            )
        parts = encoder_parts(config, kwargs.pop("dtype", None))
        inputs, outputs = _connect(parts, feature_dim)
        super().__init__(config, parts, inputs=inputs, outputs=outputs, **kwargs)

    def attention_scores(self, inputs: Tensor) -> dict[str, Tensor]:
        """Give every attention map of one pass.

        Args:
            inputs: as for the call.

        Returns:
            A dict of `encoder/layer_{i}/self_attention`, from 1, to `(b, h, s, s)`.
        """
        _, _, scores = self._encode_with_scores(inputs)
        return scores


def _connect(parts: Parts, feature_dim: int | None) -> tuple[Tensor, Tensor]:
    """Connect the layers as the left half of Figure 1 does, and what comes on top."""
    source = source_inputs("", feature_dim)
    x = parts["source_embedding" if feature_dim is None else "source_projection"](source.values)
    x = parts["embedding_dropout"](parts["position_encoding"](x))
    x = parts["encoder"](x, padding_mask=source.padding_mask)  # (b, s, d)
    if "pooling" in parts:
        x = parts["pooling"](x, padding_mask=source.padding_mask)  # (b, d)
    if "output_projection" in parts:
        x = parts["output_projection"](x)
    return source.values if feature_dim is None else source.inputs, x
