"""Multi-head attention with einsum kernels, "Attention Is All You Need", section 3.2.2."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.arguments import (
    as_tensor,
    check_attention_inputs,
    check_choice,
    check_groups,
    check_positive,
    check_rates,
    check_width,
    freeze_parts,
    known_width,
)
from keras_transformer.backend import prepare, prepared
from keras_transformer.layers.cached_attention import (
    AttentionCache,
    Hypotheses,
    StepPlan,
    hide_unless,
    plan_step,
    step_attention,
)
from keras_transformer.layers.dot_product_attention import (
    dot_product_attention,
    fused_attention,
    has_fused_kernel,
)
from keras_transformer.layers.masks import causal_mask, combine_masks, intersect_masks, window_mask
from keras_transformer.layers.normalization import Dropout
from keras_transformer.layers.relative_position_bias import RelativePositionBias
from keras_transformer.layers.rotary_embedding import rotary_embedding
from keras_transformer.layers.sequence_axes import SequenceAxes
from keras_transformer.types import Shape, Tensor


def leading_sizes(inputs: Tensor, num_axes: int) -> tuple[Tensor | int, ...]:
    """Give sizes for `ops.reshape`.

    Args:
        inputs: `(b, t, ...)`.
        num_axes: how many axes are wanted.

    Returns:
        The sizes; -1 for an unknown batch where the others are known, which saves operations in a step of
        decoding. Beside a size of 0 there is no -1.
    """
    batch, *others = ops.shape(inputs)[:num_axes]
    is_derived = not isinstance(batch, int) and all(isinstance(size, int) and size > 0 for size in others)
    return (-1 if is_derived else batch), *others


class LinearMap(NamedTuple):
    """A kernel of any axes and its bias, as one product of matrices needs them.

    An einsum's batched products, and the sums that its bias leaves in the gradient, take twice as
    long on a CPU.
    """

    matrix: Tensor
    """`(i, o)`."""
    bias: Tensor | None
    """`(o,)`, or None."""

    @classmethod
    def of(cls, kernel: Tensor, bias: Tensor | None, num_inputs: int, dtype: str) -> "LinearMap":
        """Flatten a kernel.

        Args:
            kernel: `(inputs, outputs)`, any number of axes each.
            bias: `(outputs)`, or None.
            num_inputs: how many of the kernel's axes are inputs.
            dtype: to cast both to, since Keras does so only inside `__call__`.

        Returns:
            The map.
        """
        inputs, outputs = math.prod(kernel.shape[:num_inputs]), math.prod(kernel.shape[num_inputs:])
        matrix = ops.reshape(ops.cast(kernel, dtype), (inputs, outputs))
        return cls(matrix, None if bias is None else ops.reshape(ops.cast(bias, dtype), (outputs,)))

    def __call__(self, rows: Tensor) -> Tensor:
        """Map rows `(r, i)` to `(r, o)`."""
        outputs = ops.matmul(rows, self.matrix)
        return outputs if self.bias is None else ops.add(outputs, self.bias)


def split_heads(inputs: Tensor, to_heads: LinearMap, num_heads: int) -> Tensor:
    """Compute `einsum("btd,dhk->bthk", inputs, kernel) + bias`.

    Args:
        inputs: `(b, t, d)`.
        to_heads: of a kernel `(d, h, k)` and a bias `(h, k)`.
        num_heads: heads, `h`.

    Returns:
        `(b, t, h, k)`.
    """
    width, outputs = to_heads.matrix.shape
    heads = to_heads(ops.reshape(inputs, (-1, width)))  # (b * t, h * k)
    return ops.reshape(heads, (*leading_sizes(inputs, 2), num_heads, outputs // num_heads))


def merge_heads(heads: Tensor, from_heads: LinearMap, output_shape: tuple[int, ...]) -> Tensor:
    """Compute `einsum("bthk,hkd->btd", heads, kernel) + bias`.

    Args:
        heads: `(b, t, h, k)`.
        from_heads: of a kernel `(h, k, d)`, which may have more than one last axis, and its bias.
        output_shape: the last axes, `(d,)`.

    Returns:
        `(b, t, d)`.
    """
    outputs = from_heads(ops.reshape(heads, (-1, from_heads.matrix.shape[0])))  # (b * t, d)
    return ops.reshape(outputs, (*leading_sizes(heads, 2), *output_shape))


class ScoredLayer(keras.layers.Layer):
    """The base of layers whose `return_attention_scores` changes what a call returns.

    `compute_output_shape` knows only the output. Where scores are wanted from
    symbolic inputs, Keras has to follow the call itself.
    """

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Give shapes and dtypes of what a call would return.

        Args:
            *args: the call's positional arguments.
            **kwargs: the call's keyword arguments.

        Returns:
            A `KerasTensor`, or with `return_attention_scores` a structure of them.
        """
        if kwargs.get("return_attention_scores"):
            return keras.Operation.compute_output_spec(self, *args, **kwargs)
        return super().compute_output_spec(*args, **kwargs)

    @staticmethod
    def _attend(layer: Any, *inputs: Tensor, need_scores: bool, **options: Any) -> tuple[Tensor, Any]:
        """Call a layer, and give None for the scores that nobody needs, so that none are computed."""
        outputs = layer(*inputs, return_attention_scores=need_scores, **options)
        return outputs if need_scores else (outputs, None)


def fresh_copy(initializer: Any) -> Any:
    """Copy an initializer, so that two weights do not start equal.

    A Keras initializer chooses its seed once and draws the same numbers at
    every call: queries, keys and values would start with one kernel.

    Args:
        initializer: what `keras.initializers.get` returned.

    Returns:
        A copy with a seed of its own, unless one was given; a function as it is.
    """
    if not hasattr(initializer, "get_config"):
        return initializer
    return type(initializer).from_config(initializer.get_config())


def matrix_initializer(initializer: Any, rows: int, columns: int) -> Callable[..., Tensor]:
    """Draw a kernel as the matrix that it is.

    Keras computes the fans of a kernel of rank 3 as if it were a convolution,
    and so starts attention several times too small.

    Args:
        initializer: what `keras.initializers.get` returned.
        rows: what is summed over.
        columns: what comes out.

    Returns:
        An initializer for a shape of as many numbers.
    """
    draw = fresh_copy(initializer)

    def initialize(shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        """Draw the matrix and give it the shape of the kernel."""
        return ops.reshape(draw((rows, columns), dtype=dtype), shape)

    return initialize


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


class StepwiseAttention(AttentionKernels):
    """The part of `MultiHeadAttention` that projects, and that attends from one position at a time."""

    def project_key_value(
        self, value: Tensor, key: Tensor | None = None, *, start: Tensor | int = 0
    ) -> tuple[Tensor, Tensor]:
        """Multiply the key and value inputs with their kernels.

        Args:
            value: `(b, s, d)`.
            key: `(b, s, d)`; `value` if None.
            start: the position of the first key.

        Returns:
            Keys `(b, s, h, k)` and values `(b, s, h, k)`.

        Raises:
            ValueError: another width than that of the weights.
        """
        check_width(self.value_kernel.shape[0], value=value)
        if key is not None:
            check_width(self.key_kernel.shape[0], key=key)
        keys = self._project(value if key is None else key, "key")
        if self.positions == "rotary":
            keys = rotary_embedding(keys, start=start)
        return keys, self._project(value, "value")

    def step(
        self,
        query: Tensor,
        cache: AttentionCache,
        position: Tensor,
        visible: Tensor | None = None,
    ) -> tuple[Tensor, AttentionCache]:
        """Attend from one position to itself and to the ones in the cache.

        The same numbers as causal self-attention over the whole sequence.

        Args:
            query: `(b * n, 1, d)`, the input at `position`.
            cache: the earlier positions.
            position: an integer scalar.
            visible: `(b, 1, n, T * n)`, True where a hypothesis may attend to a slot of the
                cache; see `DecoderCache`. None where each sees what it wrote itself.

        Returns:
            The output `(b * n, 1, d)` and the cache with this position written.
        """
        visible = cache.own_slots(query.shape[0], position) if visible is None else visible
        return self.planned_step(query, cache, plan_step(cache, position, visible, self.num_heads))

    def planned_step(
        self, query: Tensor, cache: AttentionCache, plan: StepPlan
    ) -> tuple[Tensor, AttentionCache]:
        """Do what `step` does, with what other layers need as well already computed.

        Args:
            query: `(b * n, 1, d)`, the input at the plan's position.
            cache: the earlier positions.
            plan: the step.

        Returns:
            As `step`.
        """
        key, value = self.project_key_value(query, start=plan.position)
        # Heads that queries share have an order of their own, seldom needed.
        hypotheses = plan.hypotheses
        if key.shape[2] != self.num_heads:
            hypotheses = Hypotheses.of(hypotheses.number, ops.shape(cache.keys)[0], key.shape[2])
        key, value = hypotheses.of_each_head(key), hypotheses.of_each_head(value)
        cache = cache.write(key, value, plan.slots)
        bias = self._step_bias(plan, ops.shape(cache.keys)[2])
        output, _ = self.attend_step(query, cache.keys, cache.values, bias, plan)
        return output, cache

    def attend_step(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        bias: Tensor | None,
        plan: StepPlan,
    ) -> tuple[Tensor, Tensor]:
        """Attend from one position of each hypothesis to keys that its source's hypotheses share.

        Args:
            query: `(b * n, 1, d)`, not yet projected.
            keys: `(b, h, m, k)`, heads first.
            values: `(b, h, m, k)`, likewise.
            bias: broadcasts to `(b, h, n, m)`, added to the logits, from `hide_unless`.
            plan: the step.

        Returns:
            The output `(b * n, 1, output_shape)` and the scores `(b, h, n, m)`.
        """
        queries = plan.hypotheses.of_each_head(self._queries(query, plan.position))
        heads, scores = step_attention(queries, keys, values, bias)
        return self._merge(plan.hypotheses.of_each_source(heads), query), scores

    def prepare_steps(self) -> None:
        """Flatten the kernels once, where steps of decoding follow; see `prepare`."""
        for name in ("query", "key", "value", "output", *(["gate"] if self.use_gate else [])):
            prepare(getattr(self, f"{name}_kernel"), functools.partial(self._flattened, name))

    def create_cache(
        self, max_length: Tensor | int, batch_size: Tensor | int, beam_size: int = 1
    ) -> AttentionCache:
        """Make an empty cache for `step`.

        Args:
            max_length: how many positions there is room for.
            batch_size: sources, `b`.
            beam_size: hypotheses for each source, `n`.

        Returns:
            The cache, all zeros.
        """
        return AttentionCache.create(
            max_length,
            batch_size,
            beam_size,
            num_heads=self.num_key_value_heads or self.num_heads,
            key_dim=self.key_dim,
            value_dim=self.value_dim or self.key_dim,
            dtype=self.compute_dtype,
        )

    def _step_bias(self, plan: StepPlan, num_slots: Tensor | int) -> Tensor:
        """Say what is added to the logits of one position."""
        bias, beam_size = plan.bias, plan.hypotheses.number
        if self.sliding_window is not None:
            distances = plan.position - ops.arange(num_slots, dtype="int32") // beam_size
            bias = bias + hide_unless(distances < self.sliding_window)
        if self.position_bias is not None:
            distances = self.position_bias.between(1, num_slots // beam_size, start=plan.position)
            bias = bias + ops.repeat(distances, beam_size, axis=-1)
        return bias

    def _queries(self, query: Tensor, start: Tensor | int) -> Tensor:
        """Project the queries, `(b, t, h, k)`."""
        queries = self._project(query, "query")
        return rotary_embedding(queries, start=start) if self.positions == "rotary" else queries

    def _merge(self, heads: Tensor, query: Tensor) -> Tensor:
        """Project what the heads `(b, t, h, k)` have gathered."""
        if self.gate_kernel is not None:
            heads = heads * ops.sigmoid(self._project(query, "gate"))
        return merge_heads(heads, self._linear_map("output"), tuple(self.output_kernel.shape[2:]))

    def _project(self, inputs: Tensor, name: str) -> Tensor:
        """Multiply `(b, t, d)` with the kernel `(d, h, k)` of a name."""
        num_heads = getattr(self, f"{name}_kernel").shape[1]
        return split_heads(ops.cast(inputs, self.compute_dtype), self._linear_map(name), num_heads)

    def _linear_map(self, name: str) -> LinearMap:
        kernel = getattr(self, f"{name}_kernel")
        return prepared(kernel, lambda: self._flattened(name))

    def _flattened(self, name: str) -> LinearMap:
        kernel, bias = getattr(self, f"{name}_kernel"), getattr(self, f"{name}_bias")
        return LinearMap.of(kernel, bias, 2 if name == "output" else 1, self.compute_dtype)


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
        check_attention_inputs(query.shape, value.shape, key.shape)
        check_width(self.query_kernel.shape[0], query=query)
        axes = SequenceAxes(len(query.shape), self.attention_axes)
        axes.check_leading(query=query, value=value, key=key)
        queries, values = axes.flatten(query), axes.flatten(value)
        keys = values if key is value else axes.flatten(key)
        check_attention_inputs(queries.shape, values.shape, keys.shape)
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
