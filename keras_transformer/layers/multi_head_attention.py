"""Multi-head attention with einsum kernels, "Attention Is All You Need", section 3.2.2."""

import keras
from keras import ops

from keras_transformer.layers.dot_product_attention import as_tensor, dot_product_attention
from keras_transformer.layers.fused_attention import fused_attention, has_fused_kernel
from keras_transformer.layers.masks import causal_mask, combine_masks, intersect_masks, window_mask
from keras_transformer.layers.sequence_axes import SequenceAxes
from keras_transformer.layers.stepwise_attention import StepwiseAttention
from keras_transformer.layers.validation import check_belong_together, check_one_rank, check_width
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(StepwiseAttention):
    """Lets every query gather values by how well their keys fit it.

    `query`, `key` and `value` are inputs; the layer multiplies each with its
    own kernel. In self-attention all three are the same tensor. In
    cross-attention the query is the decoder's state, and key and value are the
    encoder's final output. Each may have a width of its own, and there may be
    more or fewer keys than queries.

    It takes the place of `keras.layers.MultiHeadAttention`: the arguments have
    the same names, and the weights the same shapes and order, so that
    `ours.set_weights(theirs.get_weights())` loads them, and the other way round.

    Args:
        num_heads: the number of heads, `h`.
        key_dim: the width of each query and key in a head, `k`.
        value_dim: the width of each value in a head; `key_dim` if None.
        dropout: the rate of the dropout on the attention scores.
        use_bias: whether the projections add a bias.
        output_shape: the width of the output, or several sizes; that of the query if None.
        attention_axes: the axes that are the sequence; the one before the width if None.
        sliding_window: a query sees only keys fewer positions away than this; all if None.
        flash_attention: None lets the backend choose its kernel, True asks for flash
            attention, False for another. A call that needs scores or dropout uses none.
        kernel_initializer: draws the kernels, each as the matrix it is:
            `(d, h * k)` and `(h * k, d)`.
        bias_initializer: draws the biases.
        kernel_regularizer: of the kernels.
        bias_regularizer: of the biases.
        activity_regularizer: of the output.
        kernel_constraint: of the kernels.
        bias_constraint: of the biases.
        use_gate: whether each head's output is multiplied with a sigmoid of the query.
        seed: of the dropout.
        num_key_value_heads: fewer heads for keys and values, each shared by a group of
            query heads (Ainslie et al. 2023); 1 is multi-query attention (Shazeer 2019).
        positions: `rotary` turns queries and keys (`rotary_embedding`), `relative` adds a
            `RelativePositionBias`; None leaves positions to the inputs. For
            self-attention: both count queries and keys from the same start.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        query: `(b, t, d)`; also `(t, d)`, or with more leading axes.
        value: `(b, s, d)`, of any width; as many leading axes as the query.
        key: `(b, s, d)`, of any width; `value` if None.
        attention_mask: `(t, s)`, `(b, t, s)`, `(b, 1, t, s)` or `(b, h, t, s)`;
            True (1) where the query may attend to the key.
        padding_mask: `(b, s)`, True (1) where the key is a token. If None, the
            Keras masks of `key` and `value` are read.
        use_causal_mask: whether a query sees no later position than its own.
        return_attention_scores: whether the scores are returned too.
        training: whether dropout is on.
        key_mask, value_mask: filled in by Keras; `(b, s)`.
        query_mask: likewise, `(b, t)`; only handed on, so what a query of padding gathers is not zero.

    Returns:
        `(b, t, output_shape)`; with `return_attention_scores` a pair of that
        and the scores `(b, h, t, s)`. A query that may attend to nothing
        gathers zeros.

    Raises:
        TypeError: a size that is not an integer, a mask of neither booleans nor numbers.
        ValueError: sizes not above zero, a rate outside [0, 1), groups that do not divide
            the heads, unknown `positions`, a mask of another rank or size, inputs of
            different batches or of another width than the weights, keys and values of
            different lengths.

    Example:
        >>> attention = MultiHeadAttention(num_heads=2, key_dim=4)
        >>> x, memory = keras.ops.zeros((1, 3, 8)), keras.ops.zeros((1, 5, 16))
        >>> tuple(attention(x, memory).shape)
        (1, 3, 8)
    """

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
        check_one_rank(query.shape, value.shape, key.shape)
        check_width(self.query_kernel.shape[0], query=query)
        axes = SequenceAxes(len(query.shape), self.attention_axes)
        axes.check_leading(query=query, value=value, key=key)
        queries, values = axes.flatten(query), axes.flatten(value)
        keys = values if key is value else axes.flatten(key)
        check_belong_together(queries.shape, values.shape, keys.shape)
        if padding_mask is None:
            padding_mask = intersect_masks(value_mask=value_mask, key_mask=key_mask)
        lengths = ops.shape(queries)[1], ops.shape(values)[1]
        mask = combine_masks(
            padding_mask=axes.flatten_padding_mask(padding_mask, key),
            attention_mask=axes.flatten_attention_mask(attention_mask, query),
            causal_mask=causal_mask(*lengths) if use_causal_mask else None,
            window_mask=window_mask(*lengths, self.sliding_window) if self.sliding_window else None,
            scores_shape=(queries.shape[0], self.num_heads, queries.shape[1], values.shape[1]),
        )
        output, scores = self.attend(
            queries,
            *self.project_key_value(values, keys),
            mask,
            need_scores=return_attention_scores,
            training=training,
        )
        output = axes.restore(output, query)
        return (output, axes.restore_scores(scores, query)) if return_attention_scores else output

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
        *,
        start: Tensor | int = 0,
        need_scores: bool = False,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend to keys and values that are already projected.

        What the call needs chooses how: the backend's fused kernel, or, for scores,
        for dropout and for biases, `dot_product_attention`. Both give the same numbers.

        Args:
            query: `(b, t, d)`, not yet projected.
            keys: `(b, s, h, k)`, from `project_key_value`.
            values: `(b, s, h, k)`, likewise.
            mask: broadcasts to `(b, h, t, s)`, from `combine_masks`.
            start: the position of the first query.
            need_scores: whether the scores are returned.
            training: whether dropout is on.

        Returns:
            The output `(b, t, output_shape)`, and the scores `(b, h, t, s)`, or
            None where they are not needed.
        """
        queries = self._queries(query, start)
        if need_scores or (training and self.dropout) or not self._may_fuse():
            bias = self._position_bias(query, keys, start)
            heads, scores = dot_product_attention(
                queries,
                keys,
                values,
                mask,
                bias=bias,
                dropout=lambda scores: self.score_dropout(scores, training=training),
                training=training,
            )
        else:
            heads = fused_attention(queries, keys, values, mask, flash_attention=self.flash_attention)
            scores = None
        return self._merge(heads, query), scores if need_scores else None

    def _may_fuse(self) -> bool:
        """Say whether nothing in the layer itself needs the scores."""
        return self.position_bias is None and has_fused_kernel(self.key_dim, self.value_dim or self.key_dim)

    def _position_bias(self, query: Tensor, keys: Tensor, start: Tensor | int) -> Tensor | None:
        if self.position_bias is None:
            return None
        return self.position_bias.between(ops.shape(query)[1], ops.shape(keys)[1], start=start)
