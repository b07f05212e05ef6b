"""Multi-head attention as TensorFlow Addons had it."""

from typing import Any

import keras
from keras import ops

from keras_transformer._arguments import (
    as_boolean,
    check_attention_inputs,
    check_positive,
    check_rates,
    check_width,
    known_width,
)
from keras_transformer.course.layers import _PositionalCall
from keras_transformer.layers.dot_product_attention import dot_product_attention
from keras_transformer.layers.masks import combine_masks
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer.course.addons")
class MultiHeadAttention(_PositionalCall):
    """Lets every query gather values, with the weights of TensorFlow Addons' layer.

    The kernels have its shapes, `query_kernel (h, d, k)`, `key_kernel`, `value_kernel` and `projection_kernel
    (h, k, output_size)`, and its order, so that `set_weights` takes what its `get_weights` gave. Only the
    projection has a bias.

    Args:
        head_size: the width of each query, key and value in a head, `k`.
        num_heads: the number of heads, `h`.
        output_size: the width of the output; that of the value if None.
        dropout: the rate of the dropout on the coefficients.
        use_projection_bias: whether the projection adds a bias.
        return_attn_coef: whether the coefficients are returned too.
        kernel_initializer: draws the kernels.
        kernel_regularizer: of the kernels.
        kernel_constraint: of the kernels.
        bias_initializer: draws the bias.
        bias_regularizer: of the bias.
        bias_constraint: of the bias.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `[query, key, value]` of shapes `(b, t, d)`, `(b, s, d)`, `(b, s, d)`, each of any width; or
            `[query, value]`, whose value is the key too. More or no axes before `t` will do.
        training: whether dropout is on.
        mask: `(t, s)`, `(b, t, s)` or `(b, h, t, s)`; 1 (True) where the query may attend to the key. If
            None, the Keras masks of key and value are read.

    Returns:
        `(b, t, output_size)`; with `return_attn_coef` a pair of that and the coefficients `(b, h, t, s)`.

    Raises:
        TypeError: a size that is not an integer.
        ValueError: sizes not above zero, a rate outside [0, 1), another number of inputs, inputs of another
            width than the weights, a mask of another rank or size.

    Example:
        >>> attention = MultiHeadAttention(head_size=4, num_heads=2, output_size=3)
        >>> tuple(attention([keras.ops.ones((1, 5, 8)), keras.ops.ones((1, 7, 6))]).shape)
        (1, 5, 3)
    """

    def __init__(
        self,
        head_size: int,
        num_heads: int,
        output_size: int | None = None,
        dropout: float = 0.0,
        use_projection_bias: bool = True,
        return_attn_coef: bool = False,
        kernel_initializer: object = "glorot_uniform",
        kernel_regularizer: object = None,
        kernel_constraint: object = None,
        bias_initializer: object = "zeros",
        bias_regularizer: object = None,
        bias_constraint: object = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(head_size=head_size, num_heads=num_heads)
        if output_size is not None:
            check_positive(output_size=output_size)
        check_rates(dropout=dropout)
        self.head_size = head_size
        self.num_heads = num_heads
        self.output_size = output_size
        self.dropout = dropout
        self.use_projection_bias = use_projection_bias
        self.return_attn_coef = return_attn_coef
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        self.coefficient_dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.supports_masking = True

    def build(self, inputs_shape: list[Shape]) -> None:
        query, key, value = (known_width(inputs=tuple(shape)) for shape in _query_key_value(inputs_shape))
        heads, size, output_size = self.num_heads, self.head_size, self.output_size or value
        self.query_kernel = self._add("kernel", "query_kernel", heads, query, size)
        self.key_kernel = self._add("kernel", "key_kernel", heads, key, size)
        self.value_kernel = self._add("kernel", "value_kernel", heads, value, size)
        self.projection_kernel = self._add("kernel", "projection_kernel", heads, size, output_size)
        if self.use_projection_bias:
            self.projection_bias = self._add("bias", "projection_bias", output_size)

    def call(
        self, inputs: list[Tensor], training: bool | None = None, mask: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        query, key, value = _query_key_value(inputs)
        self.compute_output_shape([query.shape, key.shape, value.shape])
        leading = ops.shape(query)[:-2]
        if len(leading) != 1:
            # (..., t, d) -> (b, t, d)
            query, key, value = (ops.reshape(x, (-1, *ops.shape(x)[-2:])) for x in (query, key, value))
        mask = self._scores_mask(query, key, mask, leading)
        # (b, t, d) -> (b, t, h, k), and keys and values likewise, each of its own width
        queries = ops.einsum("btd,hdk->bthk", query, self.query_kernel)
        keys = ops.einsum("bsd,hdk->bshk", key, self.key_kernel)
        values = ops.einsum("bsd,hdk->bshk", value, self.value_kernel)
        heads, coefficients = dot_product_attention(
            queries, keys, values, mask, dropout=lambda x: self.coefficient_dropout(x, training=training)
        )
        # (b, t, h, k) -> (b, t, output_size)
        output = ops.einsum("bthk,hkd->btd", heads, self.projection_kernel)
        if self.use_projection_bias:
            output = output + self.projection_bias
        if len(leading) != 1:
            # (b, t, output_size) -> (..., t, output_size)
            output, coefficients = (
                ops.reshape(x, (*leading, *ops.shape(x)[1:])) for x in (output, coefficients)
            )
        return (output, coefficients) if self.return_attn_coef else output

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Shape | tuple[Shape, Shape]:
        query, key, value = (tuple(shape) for shape in _query_key_value(inputs_shape))
        if self.built:
            for name, shape in {"query": query, "key": key, "value": value}.items():
                check_width(getattr(self, f"{name}_kernel").shape[1], **{name: shape})
        check_attention_inputs(query, value, key)
        output = (*query[:-1], self.output_size or value[-1])
        scores = (*query[:-2], self.num_heads, query[-2], key[-2])
        return (output, scores) if self.return_attn_coef else output

    def compute_mask(self, inputs: list[Tensor], previous_mask: Tensor | None = None) -> Tensor | None:
        # The Keras mask of the query goes on.
        mask = previous_mask[0] if isinstance(previous_mask, (list, tuple)) else None
        return (mask, None) if self.return_attn_coef else mask

    def _scores_mask(
        self, query: Tensor, key: Tensor, mask: Tensor, leading: tuple[Tensor | int, ...]
    ) -> Tensor | None:
        """Give the mask a rank of 4, be it the caller's or, as a list, the Keras masks of the inputs."""
        if _are_keras_masks(mask, rank=len(leading) + 1):
            _, *key_masks = _query_key_value(mask)
            known = [as_boolean(one, "mask") for one in key_masks if one is not None]
            allowed = [ops.reshape(one, (-1, 1, 1, one.shape[-1])) for one in known]
            return ops.logical_and(allowed[0], allowed[-1]) if allowed else None
        if mask is not None and len(leading) != 1:
            mask = as_boolean(mask, "mask")
            if len(mask.shape) != 2:
                # (..., [h], t, s) -> (b, [h], t, s)
                sizes = ops.shape(mask)[len(leading) :]
                mask = ops.reshape(ops.broadcast_to(mask, (*leading, *sizes)), (-1, *sizes))
        scores_shape = (query.shape[0], self.num_heads, query.shape[1], key.shape[1])
        return combine_masks(attention_mask=mask, scores_shape=scores_shape)

    def _add(self, weight: str, name: str, *shape: int) -> Tensor:
        kinds = ("initializer", "regularizer", "constraint")
        options = {kind: getattr(self, f"{weight}_{kind}") for kind in kinds}
        if isinstance(options["initializer"], keras.initializers.Initializer):
            # It draws the same numbers at every call: queries, keys and values would start equal.
            options["initializer"] = options["initializer"].clone()
        return self.add_weight(name=name, shape=shape, **options)


def _are_keras_masks(mask: Tensor, rank: int) -> bool:
    """Tell the masks `(..., s)` of each input from a list of rows."""
    is_list = isinstance(mask, (list, tuple)) and len(mask) in (2, 3)
    return is_list and all(one is None or len(getattr(one, "shape", ())) == rank for one in mask)


def _query_key_value(inputs: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Split `[query, key, value]` or `[query, value]`."""
    if not isinstance(inputs, (list, tuple)) or len(inputs) not in (2, 3):
        received = len(inputs) if isinstance(inputs, (list, tuple)) else type(inputs).__name__
        raise ValueError(f"`inputs` must be [query, key, value] or [query, value]. Received: {received}.")
    query, key, *value = inputs
    return query, key, value[0] if value else key
