"""Attention one position at a time, as decoding needs it."""

import functools

from keras import ops

from keras_transformer.layers.attention_cache import AttentionCache
from keras_transformer.layers.attention_kernels import AttentionKernels
from keras_transformer.layers.head_projection import LinearMap, merge_heads, split_heads
from keras_transformer.layers.hypotheses import Hypotheses
from keras_transformer.layers.prepared import prepare, prepared
from keras_transformer.layers.rotary_embedding import rotary_embedding
from keras_transformer.layers.step_attention import hide_unless, step_attention
from keras_transformer.layers.step_plan import StepPlan, plan_step
from keras_transformer.layers.validation import check_width
from keras_transformer.types import Tensor


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
