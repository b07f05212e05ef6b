"""Base classes of encoder and decoder layers and their stacks: options, sub-layers, residual connections."""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transformer._arguments import (
    check_choice,
    check_divides,
    check_flags,
    check_positive,
    check_vectors,
    check_width,
    known_width,
)
from keras_transformer._backend.rematerialization import rematerialize
from keras_transformer.layers.built_parts import _freeze_parts
from keras_transformer.layers.config import LayerConfig
from keras_transformer.layers.feed_forward import FeedForward, get_activation
from keras_transformer.layers.masks import _hide_padding
from keras_transformer.layers.multi_head_attention import POSITIONS, MultiHeadAttention
from keras_transformer.layers.normalization import Dropout, _make_normalization
from keras_transformer.types import Config, Shape, Tensor

Scores = dict[str, Tensor]


def _rematerializable(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Wrap a layer's `call` so that it is rematerialized in training if the option `rematerialize` is set."""

    @functools.wraps(call)
    def wrapped(
        layer: "_Block", inputs: Tensor, *args: Any, training: bool | None = None, **masks: Any
    ) -> Tensor:
        run = functools.partial(call, layer, training=training)
        if training and layer.rematerialize:
            return rematerialize(run, layer, inputs, *args, **masks)
        return run(inputs, *args, **masks)

    return wrapped


class _Block(keras.layers.Layer):
    """Base of encoder and decoder layers and of their stacks."""

    compute: Callable[..., Tensor]
    """Returns the output of a call, and adds attention scores to the dict `scores` unless it is None. It does
    what Keras's `__call__` leaves to a layer: no casts of the inputs, no rematerialization."""

    def __init__(
        self,
        num_heads: int,
        intermediate_dim: int,
        *,
        positions: str | None = None,
        kernel_initializer: object = None,
        bias_initializer: object = None,
        **options: Any,
    ) -> None:
        sizes = {"num_heads": num_heads, "intermediate_dim": intermediate_dim}
        config, others = LayerConfig.split(type(self), options, **sizes)
        super().__init__(**others)
        check_choice(POSITIONS, positions=positions)
        self.config = config
        for name, value in config.options().items():
            setattr(self, name, value)  # options as attributes, as in every Keras layer
        self.activation = get_activation(config.activation)
        self.positions = positions
        # None stays None: making a default initializer here would draw a seed from Python's generator.
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.supports_masking = True

    def compute_output_shape(self, inputs_shape: Shape, encoder_output_shape: Shape | None = None) -> Shape:
        return tuple(inputs_shape)

    def attention_scores(self, inputs: Tensor, *args: Any, **masks: Any) -> Scores:
        """Return the attention scores of a built layer, or of every layer of a built stack.

        Takes the call arguments, except `training` and `mask`.

        Returns:
            A dict of `self_attention` to `(b, h, t, t)` and, with an encoder's output, `cross_attention` to
            `(b, h, t, s)`. In a stack, the names begin with `layer_{i}/`; `i` counts from 1.

        Raises:
            ValueError: If the layer is not built.
        """
        if not self.built:
            raise ValueError(
                f"A {type(self).__name__} must be built, as by a call, before its attention is shown. "
                f"Received: {self.name}, without weights."
            )
        scores: Scores = {}
        self.compute(inputs, *args, scores=scores, **masks)
        return scores

    @staticmethod
    def _attend(
        attention: MultiHeadAttention, query: Tensor, value: Tensor, scores: Scores | None, **options: Any
    ) -> Tensor:
        """Call an attention layer; add its scores to `scores` unless it is None."""
        if scores is None:
            return attention(query, value, **options)
        attended, scores[attention.name] = attention(query, value, return_attention_scores=True, **options)
        return attended

    def get_config(self) -> Config:
        return {**super().get_config(), **self._options()}

    def _options(self) -> Config:
        """Return the constructor's arguments, ready for JSON, without those of `keras.layers.Layer`."""
        return {
            **self.config.get_config(),
            "positions": self.positions,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }

    def _as_vectors(
        self, inputs: Tensor, attention: MultiHeadAttention, padding_mask: Tensor | None
    ) -> Tensor:
        """Return inputs `(b, t, d)` as floats, finite at padding; raise ValueError for other shapes."""
        check_vectors(inputs.shape)
        check_width(attention.query_dense.kernel.shape[0], inputs=inputs.shape)
        is_float = keras.backend.is_float_dtype(inputs.dtype)
        return _hide_padding(inputs if is_float else ops.cast(inputs, self.compute_dtype), padding_mask)

    def _attention(
        self, name: str, query_shape: Shape, value_shape: Shape, positions: str | None = None
    ) -> MultiHeadAttention:
        check_vectors(query_shape)
        hidden_dim = known_width(inputs=query_shape)
        if self.head_dim is None:
            check_divides(num_heads=self.num_heads, hidden_dim=hidden_dim)
        attention = MultiHeadAttention(
            self.num_heads,
            # k = d / h, section 3.2.2: the heads together have the input's width.
            self.head_dim or hidden_dim // self.num_heads,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            num_key_value_heads=self.num_key_value_heads,
            positions=positions,
            kernel_initializer=self.kernel_initializer or "glorot_uniform",
            bias_initializer=self.bias_initializer or "zeros",
            dtype=self.dtype_policy,
            name=name,
        )
        # Built here, in the order in which weights are saved; Keras would build it at its first call.
        attention.build(query_shape, value_shape)
        return attention

    def _feed_forward(self, name: str, shape: Shape) -> FeedForward:
        feed_forward = FeedForward(
            self.intermediate_dim,
            activation=self.activation,
            gated=self.gated,
            use_bias=self.use_bias,
            dropout=self.intermediate_dropout,
            kernel_initializer=self.kernel_initializer,
            bias_initializer=self.bias_initializer,
            dtype=self.dtype_policy,
            name=name,
        )
        feed_forward.build(shape)
        return feed_forward

    def _residual(self, name: str, shape: Shape) -> "_Residual":
        residual = _Residual(self, dtype=self.dtype_policy, name=name)
        residual.build(shape)
        return residual

    def make_normalization(self, name: str) -> keras.layers.Layer:
        """Return a new normalization layer of the kind that this block uses."""
        epsilon = self.layer_norm_epsilon
        return _make_normalization(self.normalization, epsilon=epsilon, dtype=self.dtype_policy, name=name)


class _Residual(keras.layers.Layer):
    """Residual connection around a sub-layer `f`, in pre-norm or post-norm form.

    Post-norm, as in the paper (section 3.1): `norm(x + dropout(f(x)))`. Pre-norm, which trains deep stacks
    more easily (Xiong et al. 2020): `x + dropout(f(norm(x)))`.
    """

    def __init__(self, block: _Block, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.norm_first = block.norm_first
        self.norm = block.make_normalization("norm")
        self.output_dropout = Dropout(block.dropout, dtype=self.dtype_policy)
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        self.norm.build(inputs_shape)

    def normalize(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Return the inputs `(b, t, d)`, normalized if pre-norm."""
        return self.norm(inputs, training=training) if self.norm_first else inputs

    def call(self, inputs: Tensor, outputs: Tensor, training: bool | None = None) -> Tensor:
        # Dropout comes before the sum, section 5.4.
        total = inputs + self.output_dropout(outputs, training=training)
        return total if self.norm_first else self.norm(total)


class _Stack(_Block):
    """Stack of layers with an optional final normalization."""

    def __init__(
        self,
        num_layers: int,
        num_heads: int,
        intermediate_dim: int,
        *,
        final_norm: bool | None = None,
        share_layers: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(num_heads, intermediate_dim, **options)
        check_positive(num_layers=num_layers)
        check_flags(share_layers=share_layers)
        self.num_layers = num_layers
        if final_norm is not None:
            check_flags(final_norm=final_norm)
        self.final_norm = final_norm
        self.share_layers = share_layers

    def _build_layers(self, layer_class: type[_Block], inputs_shape: Shape, *others: Shape | None) -> None:
        layers = []
        for number in range(1, 2 if self.share_layers else self.num_layers + 1):
            layer = layer_class(**self._options(), dtype=self.dtype_policy, name=f"layer_{number}")
            layer.build(inputs_shape, *others)
            layers.append(layer)
        # A tuple: `tf.train.Checkpoint` does not see the layers in a list of a Keras layer. With
        # `share_layers`, the same layer `num_layers` times.
        self.layers = tuple(layers) if len(layers) == self.num_layers else (layers[0],) * self.num_layers
        # The output of a pre-norm layer is not normalized, so the stack normalizes it.
        if self.norm_first if self.final_norm is None else self.final_norm:
            self.final_normalization = self.make_normalization("final_normalization")
        else:
            # A layer without weights, so that every stack has the same attributes.
            self.final_normalization = keras.layers.Identity(
                dtype=self.dtype_policy, name="final_normalization"
            )
        self.final_normalization.build(inputs_shape)
        _freeze_parts(self)

    def compute_output_spec(self, inputs: Tensor, *args: Any, **kwargs: Any) -> keras.KerasTensor:
        """Return the symbolic output, which is like that of the first layer; called by Keras."""
        if self.built:
            return self.layers[0].compute_output_spec(inputs, *args, **kwargs)
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)

    def compute(
        self,
        inputs: Tensor,
        *args: Any,
        training: bool | None = None,
        scores: Scores | None = None,
        **masks: Any,
    ) -> Tensor:
        """Return the output of a call; add attention scores to `scores`, by name, unless it is None."""
        x = inputs
        for number, layer in enumerate(self.layers, 1):
            if scores is None:
                x = layer(x, *args, training=training, **masks)
            else:
                of_layer: Scores = {}
                x = layer.compute(x, *args, training=training, scores=of_layer, **masks)
                scores |= {f"layer_{number}/{name}": of_layer[name] for name in of_layer}
        return self.final_normalization(x)

    def get_config(self) -> Config:
        options = {name: getattr(self, name) for name in ("num_layers", "final_norm", "share_layers")}
        return {**super().get_config(), **options}
