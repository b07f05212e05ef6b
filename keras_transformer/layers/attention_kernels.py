"""The options and the weights of multi-head attention; what they compute is in `multi_head_attention`."""

import math
from collections.abc import Sequence
from typing import Any

import keras

from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.initialization import fresh_copy, matrix_initializer
from keras_transformer.layers.relative_position_bias import RelativePositionBias
from keras_transformer.layers.scored_layer import ScoredLayer
from keras_transformer.layers.validation import (
    check_choice,
    check_groups,
    check_positive,
    check_rates,
    freeze_parts,
    known_width,
)
from keras_transformer.types import Shape, Tensor

POSITIONS = (None, "rotary", "relative")


class AttentionKernels(ScoredLayer):
    """The base of `MultiHeadAttention`, where its arguments are explained.

    The weights stand in the order of `keras.layers.MultiHeadAttention`, so that
    `ours.set_weights(theirs.get_weights())` is right, and back, for layers and
    for whole models.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: int | Sequence[int] | None = None,
        attention_axes: int | Sequence[int] | None = None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        use_gate: bool = False,
        seed: int | None = None,
        *,
        num_key_value_heads: int | None = None,
        positions: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        _check_sizes(
            num_heads=num_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            output_shape=output_shape,
            sliding_window=sliding_window,
            num_key_value_heads=num_key_value_heads,
        )
        check_rates(dropout=dropout)
        check_choice(POSITIONS, positions=positions)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.output_shape = output_shape
        self.attention_axes = attention_axes
        self.sliding_window = sliding_window
        self.flash_attention = flash_attention
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        self.use_gate = use_gate
        self.seed = seed
        self.num_key_value_heads = num_key_value_heads
        self.positions = positions
        self.supports_masking = True

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        heads, groups = self.num_heads, self.num_key_value_heads or self.num_heads
        key_dim, value_dim = self.key_dim, self.value_dim or self.key_dim
        query_width, value_width = known_width(query=query_shape), known_width(value=value_shape)
        key_width = value_width if key_shape is None else known_width(key=key_shape)
        self.query_kernel, self.query_bias = self._add_map("query", (query_width,), (heads, key_dim))
        self.key_kernel, self.key_bias = self._add_map("key", (key_width,), (groups, key_dim))
        self.gate_kernel, self.gate_bias = None, None
        if self.use_gate:
            self.gate_kernel, self.gate_bias = self._add_map("gate", (query_width,), (heads, value_dim))
        self.value_kernel, self.value_bias = self._add_map("value", (value_width,), (groups, value_dim))
        self.output_kernel, self.output_bias = self._add_map(
            "output", (heads, value_dim), self._output_sizes(query_shape)
        )
        self.position_bias = None
        if self.positions == "relative":
            self.position_bias = RelativePositionBias(heads, dtype=self.dtype_policy, name="position_bias")
            self.position_bias.build(query_shape)
        self.score_dropout = Dropout(self.dropout, seed=self.seed, dtype=self.dtype_policy)
        freeze_parts(self)

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> Shape:
        return (*query_shape[:-1], *self._output_sizes(query_shape))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self.output_shape,
            "attention_axes": self.attention_axes,
            "sliding_window": self.sliding_window,
            "flash_attention": self.flash_attention,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": keras.regularizers.serialize(self.bias_regularizer),
            "activity_regularizer": keras.regularizers.serialize(self.activity_regularizer),
            "kernel_constraint": keras.constraints.serialize(self.kernel_constraint),
            "bias_constraint": keras.constraints.serialize(self.bias_constraint),
            "use_gate": self.use_gate,
            "seed": self.seed,
            "num_key_value_heads": self.num_key_value_heads,
            "positions": self.positions,
        }

    def _add_map(
        self, name: str, inputs: tuple[int, ...], outputs: tuple[int, ...]
    ) -> tuple[Tensor, Tensor | None]:
        """Add a kernel `(inputs, outputs)` and its bias."""
        sizes = math.prod(inputs), math.prod(outputs)
        kernel = self.add_weight(
            shape=(*inputs, *outputs),
            initializer=matrix_initializer(self.kernel_initializer, *sizes),
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            name=f"{name}_kernel",
        )
        if not self.use_bias:
            return kernel, None
        bias = self.add_weight(
            shape=outputs,
            initializer=fresh_copy(self.bias_initializer),
            regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
            name=f"{name}_bias",
        )
        return kernel, bias

    def _output_sizes(self, query_shape: Shape) -> tuple[int, ...]:
        """Give the last sizes of the output: one, unless `output_shape` says otherwise."""
        if self.output_shape is None:
            return (known_width(query=query_shape),)
        return tuple(self.output_shape) if isinstance(self.output_shape, Sequence) else (self.output_shape,)


def _check_sizes(**sizes: Any) -> None:
    """Refuse sizes that are not above zero, and groups of heads of different sizes."""
    for name, given in sizes.items():
        for size in given if isinstance(given, Sequence) else [given]:
            if size is not None or name in ("num_heads", "key_dim"):
                check_positive(**{name: size})
    check_groups(sizes["num_key_value_heads"], sizes["num_heads"])
