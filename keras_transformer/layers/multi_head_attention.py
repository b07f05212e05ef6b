"""Multi-head attention, "Attention Is All You Need", section 3.2.2."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import keras
from keras import ops

from keras_transformer._arguments import (
    as_tensor,
    check_choice,
    check_divides,
    check_flags,
    check_kind,
    check_positive,
    check_rates,
    check_several,
    check_width,
    known_width,
)
from keras_transformer._backend.attention import fused_attention
from keras_transformer._backend.indexing import dynamic_shape
from keras_transformer.layers.built_parts import _clone, _freeze_parts
from keras_transformer.layers.dot_product_attention import _attend_without_scores, dot_product_attention
from keras_transformer.layers.masks import (
    _mask_queries,
    _Masks,
    _nan_unless_masks,
    _warn_if_inverted,
    _window_mask,
    _zero_non_finite,
    causal_mask,
    combine_masks,
)
from keras_transformer.layers.normalization import Dropout
from keras_transformer.layers.projection import _matrix_initializer, _Projection
from keras_transformer.layers.relative_position_bias import RelativePositionBias
from keras_transformer.layers.relative_position_keys import RelativePositionKeys
from keras_transformer.layers.relative_sinusoids import RelativeSinusoids
from keras_transformer.layers.rotary_embedding import _Rotation
from keras_transformer.layers.sequence_axes import _SequenceAxes
from keras_transformer.types import Config, Shape, Tensor

POSITIONS = (None, "rotary", "relative", "relative_causal", "relative_keys", "relative_sinusoidal")

# Serializers of the attributes that hold Keras objects.
_SERIALIZERS = {
    "kernel_initializer": keras.initializers.serialize,
    "bias_initializer": keras.initializers.serialize,
    "kernel_regularizer": keras.regularizers.serialize,
    "bias_regularizer": keras.regularizers.serialize,
    "activity_regularizer": keras.regularizers.serialize,
    "kernel_constraint": keras.constraints.serialize,
    "bias_constraint": keras.constraints.serialize,
}
_OPTIONS = (
    "num_heads",
    "key_dim",
    "value_dim",
    "dropout",
    "use_bias",
    "attention_axes",
    "sliding_window",
    "flash_attention",
    "use_gate",
    "seed",
    "num_key_value_heads",
    "positions",
)


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(keras.layers.Layer):
    """Multi-head attention with grouped key/value heads.

    Each query returns a weighted average of the values, weighted by query-key similarity. For self-attention,
    pass the same tensor as `query` and `value`; for cross-attention, pass the decoder's state as `query` and
    the encoder's output as `value`.

    A drop-in replacement for `keras.layers.MultiHeadAttention`, with the same argument names, weight shapes
    and weight order: `get_weights` and `set_weights` transfer the weights of layers and of whole models in
    both directions.

    A subclass may override `_compute_attention`, as in Keras. The method takes heads `(b, t, h, k)` and a
    mask that broadcasts to `(b, h, t, s)`, and returns heads and scores.

    Args:
        num_heads: Number of query heads, `h`.
        key_dim: Size of each query and key head, `k`.
        value_dim: Size of each value head. Defaults to `key_dim`.
        dropout: Dropout rate on the attention scores.
        use_bias: Whether the projections have biases.
        output_shape: Width of the output, or the sizes of several output axes. Defaults to the query's width.
        attention_axes: Axes to attend over. Defaults to all between the first and the last.
        sliding_window: Attend only to keys whose distance from the query, in both directions, is less than
            this number. Defaults to no limit.
        flash_attention: Whether to use flash attention, which supports neither dropout nor returned scores.
            If None, torch chooses an implementation, and the other backends do not use flash attention. If
            True, JAX raises RuntimeError without a GPU.
        kernel_initializer: Initializer of the kernels; fan-in and fan-out are those of the 2-D matrix,
            `(d, h * k)` or `(h * k, d)`.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the kernels.
        bias_regularizer: Regularizer of the biases.
        activity_regularizer: Regularizer of the output.
        kernel_constraint: Constraint on the kernels.
        bias_constraint: Constraint on the biases.
        use_gate: Whether to multiply each head's output by a sigmoid gate, computed from the query.
        seed: Random seed of the dropout.
        num_key_value_heads: Number of key/value heads, each shared by a group of query heads (Ainslie et al.
            2023); 1 is multi-query attention (Shazeer 2019). Must divide `num_heads`. Defaults to
            `num_heads`.
        positions: Position information for self-attention: `rotary` (see `RotaryEmbedding`), `relative` (a
            learned bias per distance, Raffel et al. 2020), `relative_causal` (the same for earlier keys
            only), `relative_keys` (a learned key vector per distance, Shaw et al. 2018) or
            `relative_sinusoidal` (projected sines and cosines of the distance, Dai et al. 2019).
            Each layer has separate weights. Defaults to None.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        query: `(b, t, d)`; also `(t, d)`, or more axes with `attention_axes`.
        value: `(b, s, any width)`, of the same rank as the query.
        key: `(b, s, any width)`. Defaults to `value`.
        attention_mask: `(t, s)`, `(b, t, s)`, `(b, 1, t, s)` or `(b, h, t, s)`; True (1) where the query may
            attend to the key.
        padding_mask: `(b, s)`; True (1) where the key is a token. Defaults to the Keras masks of `key` and
            `value`.
        use_causal_mask: Whether to hide later positions from each query.
        return_attention_scores: Whether to return the scores, too.
        training: Whether to apply dropout.
        key_mask, value_mask: `(b, s)`, set by Keras.
        query_mask: `(b, t)`, set by Keras; False (0) where the query is padding. As in Keras, these
            queries read zeros if `dropout` is above 0 or scores are returned, else the mean of all values.

    Returns:
        `(b, t, output_shape)`; with `return_attention_scores` a tuple of this and the scores `(b, h, t, s)`.
        A query that is no padding and whose keys are all masked reads zeros in place of values, so it returns
        the bias of the output projection. In Keras, it reads the mean of all values, or zeros if `dropout` is
        above 0 or scores are returned. In a compiled function, a mask of other numbers than 0 and 1, such as
        an additive mask, makes all outputs NaN.

    Raises:
        TypeError: If a size is not an integer, or a mask holds neither booleans nor numbers.
        ValueError: If an option is out of its range, shapes do not match, a mask holds other numbers than 0
            and 1, or flash attention is not available.

    Example:
        >>> attention = MultiHeadAttention(num_heads=2, key_dim=4)
        >>> x, memory = keras.ops.zeros((1, 3, 8)), keras.ops.zeros((1, 5, 16))
        >>> tuple(attention(x, memory).shape)
        (1, 3, 8)
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
        kernel_initializer: object = "glorot_uniform",
        bias_initializer: object = "zeros",
        kernel_regularizer: object = None,
        bias_regularizer: object = None,
        activity_regularizer: object = None,
        kernel_constraint: object = None,
        bias_constraint: object = None,
        use_gate: bool = False,
        seed: int | None = None,
        *,
        num_key_value_heads: int | None = None,
        positions: str | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        check_positive(num_heads=num_heads, key_dim=key_dim)
        _check_optional_sizes(
            value_dim=value_dim,
            output_shape=output_shape,
            sliding_window=sliding_window,
            num_key_value_heads=num_key_value_heads,
        )
        check_divides(num_key_value_heads=num_key_value_heads, num_heads=num_heads)
        check_rates(dropout=dropout)
        check_choice(POSITIONS, positions=positions)
        check_flags(use_bias=use_bias, use_gate=use_gate)
        check_kind(bool, None, flash_attention=flash_attention)
        if attention_axes is not None:
            axes = attention_axes if isinstance(attention_axes, list | tuple) else [attention_axes]
            check_several(Integral, attention_axes=axes)
        if flash_attention and dropout:
            raise ValueError(
                "`flash_attention` has no dropout. "
                f"Received: flash_attention={flash_attention}, dropout={dropout}."
            )
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self._output_shape = output_shape  # not `output_shape`, which `summary` of Keras would print
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
        self._reads_masks = True  # until an eager call has checked them for inverted values
        self.supports_masking = True

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        h, g = self.num_heads, self.num_key_value_heads or self.num_heads
        k, v = self.key_dim, self.value_dim or self.key_dim
        query_width, value_width = known_width(query=query_shape), known_width(value=value_shape)
        key_width = value_width if key_shape is None else known_width(key=key_shape)
        # Attribute names and creation order are those of Keras's layer: saved files use the names,
        # `set_weights` uses the order.
        self.query_dense = self._query_dense = self._projection(
            "query", "btd,dhk->bthk", (query_width,), (h, k)
        )
        self.key_dense = self._key_dense = self._projection("key", "bsd,dgk->bsgk", (key_width,), (g, k))
        self.gate_dense = self._gate_dense = None
        if self.use_gate:
            self.gate_dense = self._gate_dense = self._projection(
                "gate", "btd,dhk->bthk", (query_width,), (h, v)
            )
        self.value_dense = self._value_dense = self._projection(
            "value", "bsd,dgk->bsgk", (value_width,), (g, v)
        )
        sizes = self._output_sizes(query_shape)
        self.output_dense = self._output_dense = self._projection(
            # Several output sizes need one letter each.
            "attention_output",
            "bthk,hkd->btd".replace("d", "defij"[: len(sizes)]),
            (h, v),
            sizes,
        )
        self.position_bias = None
        if self.positions in ("relative", "relative_causal"):
            # A table shared by all layers, as in T5, would have to be passed through every call.
            self.position_bias = RelativePositionBias(
                h,
                bidirectional=self.positions == "relative",
                dtype=self.dtype_policy,
                name="position_bias",
            )
            self.position_bias.build(query_shape)
        elif self.positions == "relative_keys":
            self.position_bias = RelativePositionKeys(dtype=self.dtype_policy, name="position_bias")
            self.position_bias.build((None, None, h, k))
        elif self.positions == "relative_sinusoidal":
            self.position_bias = RelativeSinusoids(dtype=self.dtype_policy, name="position_bias")
            self.position_bias.build((None, None, h, k))
        self.score_dropout = Dropout(self.dropout, seed=self.seed, dtype=self.dtype_policy)
        _freeze_parts(self)

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        attention_mask: Tensor | None = None,
        padding_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        query, value = as_tensor(query), as_tensor(value)
        key = value if key is None else as_tensor(key)
        axes = self._axes(query.shape, value.shape, key.shape)
        masks = _Masks(attention_mask, padding_mask, query_mask, value_mask, key_mask)
        # (..., t, d) -> (b, t, d), and so for values, keys and masks
        flat = axes.flatten(query, value, key, masks)
        output, scores = self._attend(
            *flat, use_causal_mask=use_causal_mask, needs_scores=return_attention_scores, training=training
        )
        # (b, t, d) -> (..., t, d)
        output = axes.restore(output, query)
        return (output, axes.restore_scores(scores, query, value)) if return_attention_scores else output

    def _attend(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor,
        masks: _Masks,
        *,
        use_causal_mask: bool,
        needs_scores: bool,
        training: bool | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from a query `(b, t, d)` to a key and a value `(b, s, d)`."""
        mask = self._combined(masks, query, value, use_causal_mask=use_causal_mask)
        query, key, value = (ops.cast(inputs, self.compute_dtype) for inputs in (query, key, value))
        if mask is not None:
            self._reads_masks = self._reads_masks and not _warn_if_inverted(masks)
            # (b, h, t, s) -> (b, s), where broadcast axes have size 1
            seen = ops.any(mask, axis=(1, 2))
            key, value = _zero_non_finite(key, seen), _zero_non_finite(value, seen)
        # Q W^Q: btd,dhk->bthk; K W^K and V W^V: bsd,dgk->bsgk
        queries, keys, values = self.query_dense(query), self.key_dense(key), self.value_dense(value)
        if self.positions == "rotary":
            queries, keys = (
                _Rotation.of(dynamic_shape(heads)[1], self.key_dim)(heads) for heads in (queries, keys)
            )
        if masks.query_mask is not None:
            has_scores = self.dropout > 0 or needs_scores
            queries, mask = _mask_queries(queries, mask, masks.query_mask, has_scores)
        # head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V). As in Keras, `return_attention_scores` is passed only
        # if it is True, so that a subclass may override `_compute_attention` without that argument. Heads are
        # (b, t, h, k).
        options: Config = {"return_attention_scores": True} if needs_scores else {}
        options |= {"attention_mask": mask, "training": training}
        heads, scores = self._compute_attention(queries, keys, values, **options)
        if self.gate_dense is not None:
            heads = heads * ops.sigmoid(self.gate_dense(query))
        # Concat(head_1, ..., head_h) W^O: bthk,hkd->btd
        scores = None if scores is None else _nan_unless_masks(scores, *masks)
        return _nan_unless_masks(self.output_dense(heads), *masks), scores

    def _combined(
        self, masks: _Masks, query: Tensor, value: Tensor, *, use_causal_mask: bool
    ) -> Tensor | None:
        lengths = dynamic_shape(query)[1], dynamic_shape(value)[1]
        return combine_masks(
            padding_mask=masks.padding_mask,
            key_mask=masks.key_mask,
            value_mask=masks.value_mask,
            attention_mask=masks.attention_mask,
            causal_mask=causal_mask(*lengths) if use_causal_mask else None,
            window_mask=_window_mask(*lengths, self.sliding_window) if self.sliding_window else None,
            scores_shape=(query.shape[0], self.num_heads, query.shape[1], value.shape[1]),
        )

    def _compute_attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        lengths = dynamic_shape(query)[1], dynamic_shape(key)[1]
        if attention_mask is not None and len(attention_mask.shape) == 3:
            attention_mask = attention_mask[:, None]
        if use_causal_mask:
            causal = causal_mask(*lengths)
            attention_mask = causal if attention_mask is None else ops.logical_and(attention_mask, causal)
        dropout = self.dropout if training else 0.0
        kernel = fused_attention(self.key_dim, self.value_dim or self.key_dim, dropout)
        # A kernel returns no scores, adds no bias, and draws its dropout without a seed.
        has_seed = bool(dropout) and self.seed is not None
        needs_formula = return_attention_scores or self.position_bias is not None or has_seed
        if kernel is not None and not needs_formula:
            flash = self.flash_attention
            return _attend_without_scores(kernel, query, key, value, attention_mask, flash), None
        if self.flash_attention:
            raise ValueError(
                "`flash_attention` needs a backend that has it, and a call without scores. Received: backend="
                f"{keras.backend.backend()!r}, return_attention_scores={return_attention_scores}."
            )
        bias = None if self.position_bias is None else self.position_bias.logits(query, lengths[1])
        return dot_product_attention(
            query,
            key,
            value,
            attention_mask,
            bias=bias,
            dropout=lambda scores: self.score_dropout(scores, training=training),
            training=training,
        )

    def compute_output_shape(
        self,
        query_shape: Shape,
        value_shape: Shape,
        key_shape: Shape | None = None,
        attention_mask_shape: Shape | None = None,
        padding_mask_shape: Shape | None = None,
    ) -> Shape:
        key_shape = value_shape if key_shape is None else key_shape
        axes = self._axes(query_shape, value_shape, key_shape)
        axes.check_masks(query_shape, value_shape, self.num_heads, attention_mask_shape, padding_mask_shape)
        return (*query_shape[:-1], *self._output_sizes(query_shape))

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return symbolic outputs; called by Keras."""
        # `compute_output_shape` describes only the output; for the scores Keras traces the call.
        if kwargs.get("return_attention_scores"):
            return keras.Operation.compute_output_spec(self, *args, **kwargs)
        return super().compute_output_spec(*args, **kwargs)

    def get_config(self) -> dict[str, object]:
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in _OPTIONS},
            "output_shape": self._output_shape,
            **{name: serialize(getattr(self, name)) for name, serialize in _SERIALIZERS.items()},
        }

    def _axes(self, query: Shape, value: Shape, key: Shape) -> _SequenceAxes:
        """Return the sequence axes of the inputs; raise ValueError if their shapes do not match."""
        axes = _SequenceAxes.of(query, value, key, self.attention_axes)
        if self.built:
            check_width(self.query_dense.kernel.shape[0], query=query)
            check_width(self.value_dense.kernel.shape[0], value=value)
            check_width(self.key_dense.kernel.shape[0], key=key)
        return axes

    def _projection(
        self, name: str, equation: str, inputs: tuple[int, ...], outputs: tuple[int, ...]
    ) -> _Projection:
        """Build the linear map from input axes of sizes `inputs` to output axes of sizes `outputs`."""
        projection = _Projection(
            equation,
            (None, *outputs),
            bias_axes=equation[-len(outputs) :] if self.use_bias else None,
            kernel_initializer=_matrix_initializer(self.kernel_initializer, len(inputs)),
            bias_initializer=_clone(self.bias_initializer),
            kernel_regularizer=self.kernel_regularizer,
            bias_regularizer=self.bias_regularizer,
            kernel_constraint=self.kernel_constraint,
            bias_constraint=self.bias_constraint,
            dtype=self.dtype_policy,
            name=name,
        )
        projection.supports_masking = True  # else Keras warns that the input's mask is lost
        projection.build((None, None, *inputs))
        return projection

    def _output_sizes(self, query_shape: Shape) -> tuple[int, ...]:
        sizes = self._output_shape
        if sizes is None:
            return (known_width(query=query_shape),)
        return tuple(sizes) if isinstance(sizes, Sequence) else (sizes,)


def _check_optional_sizes(**sizes: int | Sequence[int] | None) -> None:
    for name, given in sizes.items():
        # Only `output_shape` may be a list.
        several = given if name == "output_shape" and isinstance(given, list | tuple) else [given]
        for size in several if given is not None else ():
            check_positive(**{name: size})
