"""Multi-head attention with einsum kernels, "Attention Is All You Need", section 3.2.2."""

import math
from typing import Any

import keras
from keras import ops

from keras_transformer.layers.attention_cache import AttentionCache
from keras_transformer.layers.dot_product_attention import dot_product_attention
from keras_transformer.layers.head_projection import merge_heads, split_heads
from keras_transformer.layers.masks import causal_mask, combine_masks, intersect_masks
from keras_transformer.layers.scored_layer import ScoredLayer
from keras_transformer.layers.validation import check_positive, check_rates, known_width
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(ScoredLayer):
    """Lets every query gather values by how well their keys fit it.

    `query`, `key` and `value` are inputs; the layer multiplies each with its
    own kernel. In self-attention all three are the same tensor. In
    cross-attention the query is the decoder's state, and key and value are the
    encoder's final output. Each may have a width of its own, and there may be
    more or fewer keys than queries.

    Args:
        num_heads: the number of heads, `h`.
        key_dim: the width of each query and key in a head, `k`.
        value_dim: the width of each value in a head; `key_dim` if None.
        dropout: the rate of the dropout on the attention scores.
        use_bias: whether the four projections add a bias.
        output_shape: the width of the output; that of the query if None.
        kernel_initializer: draws the kernels, each as the matrix it is:
            `(d, h * k)` and `(h * k, d)`.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        query: `(b, t, d)`.
        value: `(b, s, d)`, of any width.
        key: `(b, s, d)`, of any width; `value` if None.
        attention_mask: `(t, s)`, `(b, t, s)`, `(b, 1, t, s)` or `(b, h, t, s)`;
            True (1) where the query may attend to the key.
        padding_mask: `(b, s)`, True (1) where the key is a token. If None, the
            Keras masks of `key` and `value` are read.
        use_causal_mask: whether a query sees no later position than its own.
        return_attention_scores: whether the scores are returned too.
        training: whether dropout is on.
        query_mask, key_mask, value_mask: filled in by Keras; `(b, t)`, `(b, s)`.

    Returns:
        `(b, t, output_shape)`; with `return_attention_scores` a pair of that
        and the scores `(b, h, t, s)`. A query that may attend to nothing
        gathers zeros.

    Raises:
        ValueError: sizes not above zero, a rate outside [0, 1), a mask of
            another rank or size.

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
        output_shape: int | None = None,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(num_heads=num_heads, key_dim=key_dim)
        optional_sizes = {"value_dim": value_dim, "output_shape": output_shape}
        check_positive(**{name: size for name, size in optional_sizes.items() if size is not None})
        check_rates(dropout=dropout)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.output_shape = output_shape
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.supports_masking = True

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        heads, key_dim, value_dim = self.num_heads, self.key_dim, self.value_dim or self.key_dim
        query_width, value_width = known_width(query=query_shape), known_width(value=value_shape)
        key_width = value_width if key_shape is None else known_width(key=key_shape)
        output_width = self.output_shape or query_width
        self.query_kernel = self._add_kernel("query_kernel", query_width, heads, key_dim)
        self.key_kernel = self._add_kernel("key_kernel", key_width, heads, key_dim)
        self.value_kernel = self._add_kernel("value_kernel", value_width, heads, value_dim)
        self.output_kernel = self._add_kernel("output_kernel", heads, value_dim, output_width)
        self.query_bias = self._add_bias("query_bias", heads, key_dim)
        self.key_bias = self._add_bias("key_bias", heads, key_dim)
        self.value_bias = self._add_bias("value_bias", heads, value_dim)
        self.output_bias = self._add_bias("output_bias", output_width)
        self.score_dropout = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy)

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
        if padding_mask is None:
            padding_mask = intersect_masks(value_mask, key_mask)
        causal = causal_mask(ops.shape(query)[1], ops.shape(value)[1]) if use_causal_mask else None
        mask = combine_masks(padding_mask=padding_mask, attention_mask=attention_mask, causal_mask=causal)
        keys, values = self.project_key_value(value, key)
        output, scores = self.attend(query, keys, values, mask, training=training)
        return (output, scores) if return_attention_scores else output

    def project_key_value(self, value: Tensor, key: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Multiply the key and value inputs with their kernels.

        Args:
            value: `(b, s, d)`.
            key: `(b, s, d)`; `value` if None.

        Returns:
            Keys `(b, s, h, k)` and values `(b, s, h, k)`.
        """
        keys = self._project(value if key is None else key, self.key_kernel, self.key_bias)
        return keys, self._project(value, self.value_kernel, self.value_bias)

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
        *,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Attend to keys and values that are already projected.

        Args:
            query: `(b, t, d)`, not yet projected.
            keys: `(b, s, h, k)`, from `project_key_value`.
            values: `(b, s, h, k)`, likewise.
            mask: broadcasts to `(b, h, t, s)`, from `combine_masks`.
            training: whether dropout is on.

        Returns:
            The output `(b, t, output_shape)` and the scores `(b, h, t, s)`.
        """
        queries = self._project(query, self.query_kernel, self.query_bias)  # (b, t, h, k)
        heads, scores = dot_product_attention(
            queries,
            keys,
            values,
            mask,
            dropout=lambda scores: self.score_dropout(scores, training=training),
        )
        return merge_heads(heads, *self._cast(self.output_kernel, self.output_bias)), scores

    def step(self, query: Tensor, cache: AttentionCache, position: Tensor) -> tuple[Tensor, AttentionCache]:
        """Attend from one position to itself and to the ones in the cache.

        The same numbers as causal self-attention over the whole sequence.

        Args:
            query: `(b, 1, d)`, the input at `position`.
            cache: the earlier positions.
            position: an integer scalar.

        Returns:
            The output `(b, 1, d)` and the cache with this position written.
        """
        key, value = self.project_key_value(query)
        cache = cache.append(key, value, position)
        keys, values = cache.batch_first()
        written = ops.arange(cache.keys.shape[0]) <= position  # (T,)
        output, _ = self.attend(query, keys, values, written[None, None, None, :], training=False)
        return output, cache

    def create_cache(self, max_length: int, batch_size: Tensor | int) -> AttentionCache:
        """Make an empty cache for `step`.

        Args:
            max_length: how many positions there is room for.
            batch_size: rows, `b`.

        Returns:
            The cache, all zeros.
        """
        return AttentionCache.create(
            max_length,
            batch_size,
            num_heads=self.num_heads,
            key_dim=self.key_dim,
            value_dim=self.value_dim or self.key_dim,
            dtype=self.compute_dtype,
        )

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> Shape:
        return (*query_shape[:-1], self.output_shape or query_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self.output_shape,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }

    def _project(self, inputs: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
        """Compute `(b, t, d)` times `(d, h, k)`."""
        return split_heads(ops.cast(inputs, self.compute_dtype), *self._cast(kernel, bias))

    def _cast(self, kernel: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Cast weights, since Keras does so only inside `__call__`, not in `step`."""
        kernel = ops.cast(kernel, self.compute_dtype)
        return kernel, None if bias is None else ops.cast(bias, self.compute_dtype)

    def _add_kernel(self, name: str, *shape: int) -> Tensor:
        """Add a kernel, drawn as the matrix that it is.

        Keras computes the fans of a kernel of rank 3 as if it were a
        convolution, and so starts attention several times too small.
        """
        rows = shape[0] if name != "output_kernel" else shape[0] * shape[1]
        matrix = (rows, math.prod(shape) // rows)

        def initializer(shape: tuple[int, ...], dtype: Any = None) -> Tensor:
            """Draw the matrix and give it the shape of the kernel."""
            return ops.reshape(self.kernel_initializer(matrix, dtype=dtype), shape)

        return self.add_weight(shape=shape, initializer=initializer, name=name)

    def _add_bias(self, name: str, *shape: int) -> Tensor | None:
        return self.add_weight(shape=shape, initializer="zeros", name=name) if self.use_bias else None
