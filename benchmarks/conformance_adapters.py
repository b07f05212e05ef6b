"""Our layers under the names and with the arguments of Keras's and KerasNLP's, for `conformance.py`."""

from typing import Any

import keras
from keras import ops

from keras_transformer import layers

_register = keras.saving.register_keras_serializable(package="conformance")


class _Renamed:
    """Keeps the arguments of the other project as the configuration."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Remember what the layer is made with."""
        layer = super().__new__(cls, *args, **kwargs)
        layer._given = kwargs
        return layer

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that were given, and those of a Keras layer."""
        config = keras.layers.Layer.get_config(self)
        return {**self._given, **config}


@_register
class GroupedQueryAttention(_Renamed, layers.MultiHeadAttention):
    """Ours with the arguments of Keras's."""

    def __init__(self, head_dim: int, num_query_heads: int, num_key_value_heads: int, **kwargs: Any) -> None:
        self.head_dim, self.num_query_heads = head_dim, num_query_heads
        super().__init__(num_query_heads, head_dim, num_key_value_heads=num_key_value_heads, **kwargs)


class _Layer(_Renamed):
    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int,
        dropout: float = 0,
        activation: Any = "relu",
        layer_norm_epsilon: float = 1e-5,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        normalize_first: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads,
            intermediate_dim,
            dropout=dropout,
            activation=activation,
            layer_norm_epsilon=layer_norm_epsilon,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            norm_first=normalize_first,
            **kwargs,
        )


@_register
class TransformerEncoder(_Layer, layers.EncoderLayer):
    """`EncoderLayer`."""


@_register
class TransformerDecoder(_Layer, layers.DecoderLayer):
    """`DecoderLayer`."""

    def build(self, decoder_sequence_shape: Any, encoder_sequence_shape: Any = None) -> None:
        """Build the layer."""
        super().build(decoder_sequence_shape, encoder_sequence_shape)

    def call(self, decoder_sequence: Any, encoder_sequence: Any = None, **options: Any) -> Any:
        """Call the layer."""
        return super().call(decoder_sequence, encoder_sequence, **options)

    def compute_output_shape(self, decoder_sequence_shape: Any, encoder_sequence_shape: Any = None) -> Any:
        """Return the shape of the output."""
        return super().compute_output_shape(decoder_sequence_shape, encoder_sequence_shape)

    def compute_output_spec(self, decoder_sequence: Any, encoder_sequence: Any = None, **options: Any) -> Any:
        """Return the symbolic output."""
        return super().compute_output_spec(decoder_sequence, encoder_sequence, **options)


class _Positions(_Renamed):
    """Returns the marks alone, which ours adds, along the last axis but one of any rank."""

    def call(self, inputs: Any, start_index: Any = 0, positions: Any = None) -> Any:
        """Add the marks to zeros."""
        rows = ops.reshape(ops.zeros_like(inputs), (-1, *ops.shape(inputs)[-2:]))
        return ops.reshape(super().call(rows, start=start_index), ops.shape(inputs))

    def compute_output_shape(self, inputs_shape: Any, positions_shape: Any = None) -> Any:
        """Return the shape of the inputs."""
        return tuple(inputs_shape)


@_register
class SinePositionEncoding(_Positions, layers.PositionEncoding):
    """`PositionEncoding`, with pairs of sine and cosine next to each other."""

    def __init__(self, max_wavelength: float = 10000, **kwargs: Any) -> None:
        super().__init__(max_wavelength=max_wavelength, **kwargs)


@_register
class PositionEmbedding(_Positions, layers.LearnedPositionEncoding):
    """`LearnedPositionEncoding`."""

    def __init__(self, sequence_length: int, initializer: Any = "glorot_uniform", **kwargs: Any) -> None:
        super().__init__(sequence_length, initializer=initializer, **kwargs)


@_register
class RotaryEmbedding(_Renamed, layers.RotaryEmbedding):
    """`RotaryEmbedding`, whose axes are those that KerasNLP's has by default."""

    def __init__(
        self,
        max_wavelength: float = 10000,
        scaling_factor: float = 1.0,
        sequence_axis: int = 1,
        feature_axis: int = -1,
        **kwargs: Any,
    ) -> None:
        super().__init__(max_wavelength=max_wavelength, scaling_factor=scaling_factor, **kwargs)

    def call(self, inputs: Any, start_index: Any = 0, positions: Any = None) -> Any:
        """Turn the inputs."""
        return super().call(inputs, start_index, positions)


ADAPTERS: dict[str, dict[str, type]] = {
    "transformer_encoder_test.py": {"TransformerEncoder": TransformerEncoder},
    "transformer_decoder_test.py": {"TransformerDecoder": TransformerDecoder},
    "sine_position_encoding_test.py": {"SinePositionEncoding": SinePositionEncoding},
    "position_embedding_test.py": {"PositionEmbedding": PositionEmbedding},
    "rotary_embedding_test.py": {"RotaryEmbedding": RotaryEmbedding},
}
"""Our classes by the file of tests, and by the name that they have there."""
