"""Encoder-only model for classification, tagging, masked-token training and vectors."""

from typing import Any

import keras

from keras_transformer.layers.encoder import Encoder
from keras_transformer.layers.normalization import Dropout
from keras_transformer.layers.projection import Dense
from keras_transformer.layers.token_embedding import OutputProjection
from keras_transformer.models.config import _EncoderConfig
from keras_transformer.models.encoding_model import _EncodingModel, _make_source
from keras_transformer.models.parts import Parts, Pooling, _add_positions, _input_parts, _with_mask
from keras_transformer.models.source import _Source
from keras_transformer.types import Inputs, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderModel(_EncodingModel):
    """Encoder-only model, from token ids or frames to one output per position or per example.

    - Tagging: `EncoderModel(v, num_tags)` with `training.MaskedCrossentropy(pad_id=-100)` and
      `data.tagging_dataset`.
    - Classification: `EncoderModel(v, num_classes, pooling="mean")` with
      `keras.losses.SparseCategoricalCrossentropy(from_logits=True)`.
    - Masked-token training (Devlin et al. 2019, "BERT"): `EncoderModel(v, v, tie_output=True)`.
    - Vectors of tokens: `EncoderModel(v)`; with `pooling`, one vector per text.

    Args:
        vocabulary_size: Number of token ids, `v`; None for frames.
        num_outputs: Number of logits per position or example. Defaults to None: vectors of width `d`.
        feature_dim: Width of a frame, `w`; None for token ids.
        pooling: `mean` or `max` over the tokens, or the `first` token, for one output per example. Defaults
            to None, one output per position.
        tie_output: Whether to use the embedding table as the output kernel; `num_outputs` must be
            `vocabulary_size`.
        output_bias: Whether a tied output has a bias per vocabulary entry. Untied outputs always have a bias.
        head_activation: Activation of a dense layer of width `d` before the logits, as in BERT: `tanh` for
            classification, `gelu` for masked tokens. Defaults to None, no such layer.
        head_norm: Whether normalization, not dropout, follows the dense layer. BERT has one for masked
            tokens.
        **options: `name` and `dtype` of a Keras model, and the options of `TransformerConfig`, except
            `share_embeddings`, `share_positions` and those with `source`, `target`, `encoder` or `decoder` in
            the name.

    Call arguments:
        inputs: Token ids, integers `(b, s)`, where 0 is padding; or for frames a dict of `features`
            `(b, s, w)` and an optional `padding_mask` `(b, s)`, True (1) where there is a frame.
            Without the mask, no frame is padding.

    Returns:
        `(b, s, num_outputs)`, or `(b, num_outputs)` with `pooling`. Without `num_outputs`, the last dimension
        is `d`, and a Keras mask hides padding from layers on top; the logits of a call have none.

    Raises:
        TypeError: If an option is unknown or has the wrong type.
        ValueError: If options are out of range or contradict each other.

    Example:
        >>> model = EncoderModel(100, 3, pooling="mean", num_layers=1, hidden_dim=8, num_heads=2,
        ...                      intermediate_dim=16)
        >>> tuple(model(keras.ops.ones((2, 5), "int32")).shape)
        (2, 3)
    """

    config: _EncoderConfig

    def __init__(
        self, vocabulary_size: int | None = None, num_outputs: int | None = None, **options: Any
    ) -> None:
        sizes = {"vocabulary_size": vocabulary_size, "num_outputs": num_outputs}
        config, others = _EncoderConfig.split(type(self), options, **sizes)
        dtype = others.pop("dtype", None)
        source = _make_source("", config)
        parts = _parts(config, source, dtype)
        inputs, outputs = _connect(parts, source)
        super().__init__(inputs=inputs, outputs=outputs, **others)
        self._source = source
        self._store_config(config, parts)

    def compute_mask(self, inputs: Inputs, previous_mask: object = None) -> Tensor | None:
        """Return the padding mask of output vectors `(b, s, d)`; None for logits. Called by Keras."""
        # Not for logits: Keras's losses would apply the mask to labels that the loss already ignores.
        if self.config.num_outputs is not None or self.config.pooling is not None:
            return None
        return self._source.split(self._complete(inputs))[1][:, :: self.source_stride]

    def attention_scores(self, inputs: Inputs) -> dict[str, Tensor]:
        """Return the attention scores of every layer.

        Returns:
            A dict of `encoder/layer_{i}/self_attention` to `(b, h, s, s)`. `i` counts from 1.
        """
        _, _, scores = self._encode_with_scores(*self._source.split(self._complete(inputs)))
        return scores


def _parts(config: _EncoderConfig, source: _Source, dtype: object) -> Parts:
    """Build the layers; pooling, head and output projection only if configured."""
    encoder = Encoder(config.num_layers, **config.stack_options(), dtype=dtype, name="encoder")
    parts = {
        source.layer: source.make_layer(config, dtype),
        **_input_parts(config, dtype, source=encoder),
        "encoder": encoder,
    }
    if config.pooling is not None:
        parts["pooling"] = Pooling(config.pooling, dtype=dtype, name="pooling")
    if config.head_activation is not None:
        name = config.head_activation
        activation = keras.saving.get_registered_object(f"keras_transformer>{name}") or name  # `gelu_tanh`
        parts["head"] = Dense(config.hidden_dim, activation=activation, dtype=dtype, name="head")
        parts["head_end"] = (
            encoder.make_normalization("head_normalization")
            if config.head_norm
            else Dropout(config.dropout, dtype=dtype, name="head_dropout")
        )
    if config.num_outputs is not None:
        name = "output_projection"
        parts[name] = (
            OutputProjection(
                config.num_outputs,
                embedding=parts["source_embedding"],
                use_bias=config.output_bias,
                dtype=dtype,
                name=name,
            )
            if config.tie_output
            else Dense(config.num_outputs, dtype=dtype, name=name)
        )
    return parts


def _connect(parts: Parts, source: _Source) -> tuple[Inputs, Tensor]:
    """Connect the layers as in the left half of Figure 1, followed by pooling, head and output."""
    inputs = source.make_inputs()
    values, mask = source.split(inputs)
    x, mask = source.vectors(parts[source.layer], values, mask)
    x = parts["embedding_dropout"](_add_positions(parts, "source", x, mask))
    x = _with_mask(parts["encoder"](x, padding_mask=mask), mask)
    if "pooling" in parts:
        # (b, s, d) -> (b, d)
        x = parts["pooling"](x, padding_mask=mask)
    if "head" in parts:
        x = parts["head_end"](parts["head"](x))
    if "output_projection" in parts:
        x = parts["output_projection"](x)
    return values if len(inputs) == 1 else inputs, x
