"""Multi-head attention with the interface of TensorFlow Addons."""

from typing import Any

import keras

from keras_transformer._arguments import as_tensor
from keras_transformer.course.transformer import _training
from keras_transformer.layers.multi_head_attention import MultiHeadAttention as _MultiHeadAttention
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer.course.addons")
class MultiHeadAttention(keras.layers.Layer):
    """Multi-head attention with the arguments of TensorFlow Addons, called with a list.

    Args:
        head_size: Width of each query, key and value in a head, `k`.
        num_heads: Number of heads, `h`.
        output_size: Width of the output. Defaults to that of the query.
        dropout: Dropout rate on the coefficients.
        use_projection_bias: Whether the projections have biases.
        return_attn_coef: Whether to return the coefficients `(b, h, t, s)` too.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `[query, key, value]` of shapes `(b, t, d)`, `(b, s, d)`, `(b, s, d)`, each of any width; or
            `[query, value]`, where the value is also the key.
        training: Whether dropout is on.
        mask: `(t, s)`, `(b, t, s)` or `(b, h, t, s)`; 1 (True) where the query may attend to the key. The
            Keras masks of query, key and value are read too.

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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.return_attn_coef = return_attn_coef
        self.attention = _MultiHeadAttention(
            num_heads,
            head_size,
            dropout=dropout,
            use_bias=use_projection_bias,
            output_shape=output_size,
            dtype=self.dtype_policy,
        )
        self.supports_masking = True

    def build(self, inputs_shape: list[Shape]) -> None:
        query, key, value = _query_key_value(inputs_shape)
        self.attention.build(query, value, key)

    def __call__(
        self, inputs: list[Tensor], training: bool | None = None, mask: Tensor | None = None, **kwargs: Any
    ) -> Any:
        """Call the layer; every argument may be given by position."""
        # Not named `mask`, a name under which Keras passes the masks of all inputs.
        if mask is not None:
            kwargs["attention_mask"] = as_tensor(mask)
        return super().__call__(inputs, **_training(training), **kwargs)

    def call(
        self, inputs: list[Tensor], training: bool | None = None, attention_mask: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        query, key, value = _query_key_value(inputs)
        options = {"attention_mask": attention_mask, "return_attention_scores": self.return_attn_coef}
        return self.attention(query, value, key, training=training, **options)

    def compute_mask(self, inputs: list[Tensor], previous_mask: list[Tensor | None] | None = None) -> Any:
        mask = None if previous_mask is None else previous_mask[0]  # of the query
        return (mask, None) if self.return_attn_coef else mask


def _query_key_value(inputs: list[Any]) -> tuple[Any, Any, Any]:
    """Split `[query, key, value]` or `[query, value]`."""
    if not isinstance(inputs, (list, tuple)) or len(inputs) not in (2, 3):
        received = len(inputs) if isinstance(inputs, (list, tuple)) else type(inputs).__name__
        raise ValueError(f"`inputs` must be [query, key, value] or [query, value]. Received: {received}.")
    return inputs[0], inputs[1], inputs[-1]
