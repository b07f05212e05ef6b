"""Base class of the searches: their options, their contract with a model, and the decoding loop.

A search sees a model only through `Step`, so a test can replace the model with a function.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, get_args

import keras
from keras import ops

from keras_transformer._arguments import check_choice, check_kind, check_number
from keras_transformer._backend.indexing import dynamic_shape, gather
from keras_transformer._backend.loop import PositionBuffer
from keras_transformer.decoding.constraints import (
    NO_CONSTRAINTS,
    Constraints,
    _is_absent,
    _Limits,
)
from keras_transformer.decoding.log_probabilities import _next_token_log_probabilities
from keras_transformer.types import SpecialIds, Tensor

# Initial length of the caches. Attention reads the whole cache, so short outputs should not pay for the
# longest possible one.
CHUNK = 32
# Smallest batch whose last quarter of sources is decoded separately when sizes are static: 32 sources of a
# trained model, compiled by XLA on two cores, take 0.8 of the time.
_MIN_SPLIT_BATCH = 16


LengthNormalization: TypeAlias = Literal["gnmt", "length", "generated_length"]


class _Cache(Protocol):
    """Decoder cache: a nest of tensors `(b, any)`, for `n` hypotheses of each source."""

    def reorder(self, rows: Tensor) -> "_Cache":
        """Continue hypothesis `rows[i]` as hypothesis `i`, both of one source; `rows` is `(b * n,)`."""

    def grow(self, num_positions: Tensor | int) -> "_Cache":
        """Extend the cache by `num_positions` positions."""


Step = Callable[[Tensor, Tensor, _Cache], tuple[Tensor, _Cache]]
"""`(token_ids (b * n,), position, cache) -> (logits (b * n, v), cache)`."""


class SearchResult(NamedTuple):
    """Hypotheses of a search, best first."""

    token_ids: Tensor
    """int32 `(b, n, T)`: output tokens without the start token, with the end token, then padding."""
    scores: Tensor
    """float32 `(b, n)`: log-probability divided by the length penalty."""


class _Request(NamedTuple):
    """Inputs of a search, except for the model."""

    batch_size: Tensor | int  # number of sources, `b`; a tensor if a traced graph does not know it
    max_length: int  # maximum number of tokens of a hypothesis, including the end token, `T`
    source_lengths: Tensor | None = None  # integers `(b,)`, for limits that depend on them
    prefix_ids: Tensor | None = None  # integers `(b, p)`, padded: the first tokens of each hypothesis
    score_prefix: bool = True  # whether the prefix counts in the scores
    first_ids: Tensor | None = None  # integers `(b,)`: the first decoder input; by default the start token
    source_numbers: Tensor | None = None  # integers `(b,)`: identify the sources for sampling
    max_lengths: Tensor | None = None  # int32 `(b,)`, see `generate`; only for a dynamic batch size
    length_penalties: Tensor | None = None  # float32 `(b,)`, see `generate`
    initial_cache_length: int = CHUNK  # initial cache length of a loop with static sizes

    @property
    def has_dynamic_sizes(self) -> bool:
        """Whether the loop may change tensor sizes: only in a TensorFlow graph with a dynamic batch size."""
        return PositionBuffer.may_grow(self.batch_size)

    @property
    def first_cache_length(self) -> Tensor | int:
        """Cache length to start with; 0 if sizes may change, since the loop then grows the cache."""
        return (
            self.batch_size * 0 if self.has_dynamic_sizes else min(self.initial_cache_length, self.max_length)
        )


# A named tuple, one per search, with the fields `position`, `limits` and `cache`; the other fields are
# tensors `(b, ...)`.
State: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search(abc.ABC):
    """Base class of `GreedySearch`, `SampleSearch` and `BeamSearch`.

    Searches are frozen dataclasses: hashable, compared by value, changed with `dataclasses.replace`.
    """

    length_penalty: float = 0.0
    """Exponent of the length penalty, by which scores are divided. 0 disables it."""
    length_normalization: LengthNormalization = "gnmt"
    """Base of the length penalty. "gnmt": `(5 + length) / 6` (Wu et al. 2016, section 7). "length": the
    number of tokens, as in transformers and CTranslate2. "generated_length": the number of tokens after
    `first_token_ids`, as in transformers for Whisper."""
    constraints: Constraints = NO_CONSTRAINTS
    """Rules for the generated tokens."""
    special_ids: SpecialIds | None = None
    """Special token ids of the target. Required by `decoding.generate`; a `Translator` or a `TextGenerator`
    fills them in."""

    kinds: ClassVar[dict[str, type["Search"]]] = {}
    """Search classes that can be saved, by `kind`."""
    kind: ClassVar[str]
    """Name of the class in saved files. A class that does not define `kind` cannot be saved."""
    token_fields: ClassVar[tuple[str, ...]]
    """State fields that grow with the hypotheses: token ids `(b, n, t)`."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in vars(cls):
            Search.kinds[cls.kind] = cls

    def __post_init__(self) -> None:
        check_number(length_penalty=self.length_penalty)
        check_kind(Constraints, constraints=self.constraints)
        check_kind(SpecialIds, None, special_ids=self.special_ids)
        check_choice(get_args(LengthNormalization), length_normalization=self.length_normalization)
        if self.special_ids is not None:
            check_number(whole=True, **self.special_ids._asdict())

    @property
    def _ids(self) -> SpecialIds:
        # No default: with other ids than in training, a model generates garbage.
        if self.special_ids is None:
            name = type(self).__name__
            raise ValueError(
                "`special_ids` must say which token ids are padding, unknown, start and end, as in "
                f"{name}(..., special_ids=keras_transformer.SpecialIds(pad=0, unknown=1, start=2, end=3)). "
                "Received: None."
            )
        return self.special_ids

    @property
    def beam_size(self) -> int:
        """Number of hypotheses in the cache for each source, `n`."""
        return 1

    @property
    def num_outputs(self) -> int:
        """Number of hypotheses in a result for each source, at most `n`."""
        return self.beam_size

    @property
    def is_random(self) -> bool:
        """Whether the search draws random numbers."""
        return False

    def score(
        self, log_probabilities: Tensor, num_tokens: Tensor | int, length_penalties: Tensor = ()
    ) -> Tensor:
        """Divide the log-probabilities of hypotheses by the length penalty.

        Args:
            log_probabilities: float32 `(b,)` or `(b, n)`.
            num_tokens: Numbers of tokens, including the end token, which broadcast.
            length_penalties: float32 `(b,)`: exponents of the sources. Defaults to `length_penalty` for all.

        Returns:
            The scores, with the shape of the log-probabilities.
        """
        exponent: Tensor | float = self.length_penalty
        if not _is_absent(length_penalties):
            exponent = ops.reshape(length_penalties, (-1, *[1] * (len(log_probabilities.shape) - 1)))
        if self.length_normalization == "generated_length":
            num_tokens = num_tokens - len(self.constraints.first_token_ids)
        length = ops.cast(num_tokens, "float32")
        # Without tokens the divisor would be 0.
        base = (5.0 + length) / 6.0 if self.length_normalization == "gnmt" else ops.maximum(length, 1.0)
        return log_probabilities / ops.power(base, exponent)

    def __call__(self, step: Step, cache: _Cache, request: _Request) -> SearchResult:
        """Search for likely sequences, starting with a cache of `request.first_cache_length` positions."""
        state = self.initialize(cache, request, request.first_cache_length)
        # The batch size decides which loop runs; a test compares both with the plain decoder.
        if not request.has_dynamic_sizes:
            return self._run_with_static_sizes(state, step, request.initial_cache_length, request.max_length)
        # TensorFlow's scatter copies a buffer at each step: 4 ms for 33 MB, against 0.1 ms in place. Writing
        # in place is safe only here, where the loop has created its buffers and nothing else refers to them.
        return self._run_with_dynamic_sizes(state, step, request.batch_size, request.max_length)

    @abc.abstractmethod
    def initialize(self, cache: _Cache, request: _Request, length: Tensor | int) -> State:
        """Return the state before the first token, with space for `length` tokens."""

    @abc.abstractmethod
    def is_running(self, state: State, max_length: int) -> Tensor:
        """Return which sources may still change their result, boolean `(b,)`."""

    @abc.abstractmethod
    def advance(self, state: State, step: Step, max_length: int) -> State:
        """Generate the next token of every hypothesis."""

    @abc.abstractmethod
    def finalize(self, state: State, max_length: int) -> SearchResult:
        """Return the hypotheses, best first, padded to `max_length`."""

    def _first_ids(self, request: _Request) -> Tensor:
        """Return the first decoder input of each hypothesis, int32 `(b, n)`."""
        if request.first_ids is None:
            return ops.full((request.batch_size, self.beam_size), self._ids.start, dtype="int32")
        return ops.repeat(ops.cast(request.first_ids, "int32")[:, None], self.beam_size, axis=1)

    def _source_limits(self, request: _Request) -> _Limits:
        limits = self.constraints.limits(request.max_length, request.source_lengths, request.prefix_ids)
        if not (request.score_prefix or _is_absent(limits.prefix_ids)):
            is_given = ops.not_equal(limits.prefix_ids, self._ids.pad)
            limits = limits._replace(num_unscored=ops.sum(ops.cast(is_given, "int32"), axis=1))
        if request.length_penalties is not None:
            limits = limits._replace(length_penalties=request.length_penalties)
        if request.max_lengths is None:
            return limits
        if not request.has_dynamic_sizes:
            raise ValueError(
                "`max_lengths` must be given in a graph of TensorFlow, for a batch of any size. "
                f"Received: batch_size={request.batch_size}."
            )
        if not _is_absent(limits.longest):
            limits = limits._replace(longest=ops.minimum(limits.longest, request.max_lengths))
        return limits._replace(max_lengths=request.max_lengths)

    def _allowed(
        self, logits: Tensor, token_ids: Tensor, position: Tensor, limits: _Limits, max_length: int
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities of logits `(b * n, v)` twice: the model's, and with all rules applied."""
        log_probabilities = _next_token_log_probabilities(logits, self._ids)
        limits = limits.each(lambda limit: ops.repeat(limit, self.beam_size, axis=0))
        if not _is_absent(limits.num_unscored):
            is_given = limits.num_unscored > position - len(self.constraints.first_token_ids)
            log_probabilities = ops.where(is_given[:, None], 0.0, log_probabilities)
        max_length = limits.cut_off_length(max_length)
        allowed = self.constraints.apply(
            log_probabilities, token_ids, position, limits, max_length, self._ids
        )
        return tuple(
            self.constraints.force(scores, position, max_length, self._ids.end)
            for scores in (log_probabilities, allowed)
        )

    def _pad_hypotheses(self, token_ids: Tensor, max_length: int) -> Tensor:
        """Pad hypotheses `(b, n, t)` to `(b, n, T)`."""
        batch_size, beam_size, length = dynamic_shape(token_ids)
        padding = ops.full((batch_size, beam_size, max_length - length), self._ids.pad, dtype="int32")
        return ops.reshape(
            ops.concatenate([token_ids, padding], axis=-1), (batch_size, beam_size, max_length)
        )

    def _run_with_static_sizes(
        self, state: State, step: Step, cache_length: int, max_length: int
    ) -> SearchResult:
        """Decode up to the current cache length, then double it if a hypothesis is unfinished."""
        # XLA cannot change a size inside a loop, so there is a loop for each cache length: 32, 64, 128 ...
        # Each is entered only if a hypothesis has outgrown the one before. The last quarter of a large batch
        # has a separate loop only at the first cache length, since each loop takes seconds to compile.
        last, batch_size = min(cache_length, max_length), dynamic_shape(state.last_ids)[0]
        few, is_large = batch_size // 4, cache_length == CHUNK < max_length and batch_size >= _MIN_SPLIT_BATCH
        num_left = 0 if is_large is False else ops.cast(ops.where(is_large, few, 0), "int32")
        state = self._advance_while(state, step, last, num_left, max_length)
        if is_large is not False:
            state = ops.cond(
                is_large, lambda: self._advance_few(state, step, last, few, max_length), lambda: state
            )
        if cache_length >= max_length:
            return self.finalize(state, max_length)
        more = min(cache_length, max_length - cache_length)
        return ops.cond(
            ops.any(self.is_running(state, max_length)),
            lambda: self._run_with_static_sizes(self._grow(state, more), step, 2 * cache_length, max_length),
            lambda: self.finalize(state, max_length),
        )

    def _run_with_dynamic_sizes(
        self, state: State, step: Step, batch_size: Tensor, max_length: int
    ) -> SearchResult:
        """Decode until a quarter of the sources has finished, remove them from the batch, and repeat."""
        # In a TensorFlow graph, such as an export, a batch may have any size, and its longest output would
        # delay all others. At a quarter, few copies are needed and a step has few finished rows.
        # The sum depends on the batch, so that the graph is traced for any length.
        cache_length = batch_size * 0 + min(CHUNK, max_length)
        start = self._grow(state, cache_length)
        nothing = self.finalize(start, max_length)

        def advance(
            numbers: Tensor, cache_length: Tensor, result: SearchResult, *fields: Any
        ) -> tuple[Tensor, ...]:
            more = ops.minimum(CHUNK, max_length - cache_length) * ops.cast(
                fields[0] >= cache_length, "int32"
            )
            cache_length = cache_length + more
            state = self._grow(start._make(fields), more)
            # A hypothesis at its maximum length must not grow while it waits for others.
            last = ops.minimum(cache_length, ops.min(state.limits.cut_off_length(max_length)))
            state = self._advance_while(state, step, last, dynamic_shape(numbers)[0] * 3 // 4, max_length)
            is_running = ops.logical_and(
                self.is_running(state, max_length), state.position < state.limits.cut_off_length(max_length)
            )
            done, running = _true_indices(ops.logical_not(is_running)), _true_indices(is_running)
            part = self.finalize(self._select(state, done), max_length)
            rows = gather(numbers, done)[:, None]
            written = (ops.scatter_update(all_, rows, new) for all_, new in zip(result, part, strict=True))
            return (
                gather(numbers, running),
                cache_length,
                SearchResult(*written),
                *self._select(state, running),
            )

        first = ops.arange(batch_size, dtype="int32"), cache_length, nothing, *start
        return ops.while_loop(lambda numbers, *_: dynamic_shape(numbers)[0] > 0, advance, first)[2]

    def _advance_while(
        self, state: State, step: Step, last: Tensor | int, num_left: Tensor | int, max_length: int
    ) -> State:
        """Generate up to `last` tokens, as long as more than `num_left` sources are running."""

        def goes_on(*fields: Any) -> Tensor:
            is_running = ops.cast(self.is_running(state._make(fields), max_length), "int32")
            return ops.logical_and(fields[0] < last, ops.sum(is_running) > num_left)

        fields = ops.while_loop(
            goes_on, lambda *fields: self.advance(state._make(fields), step, max_length), state
        )
        return state._make(fields)

    def _advance_few(self, state: State, step: Step, last: int, few: Tensor | int, max_length: int) -> State:
        """Advance only the running sources, at most `few`, and write them back."""
        is_running = ops.cast(self.is_running(state, max_length), "int32")
        _, rows = ops.top_k(is_running, few)
        part = self._advance_while(self._select(state, rows), step, last, 0, max_length)
        places = ops.arange(dynamic_shape(is_running)[0], dtype="int32") + few
        places = ops.scatter_update(places, rows[:, None], ops.arange(few, dtype="int32"))
        state = keras.tree.map_structure(
            lambda old, new: gather(ops.concatenate([new, old]), places),
            state._replace(position=()),
            part._replace(position=()),
        )
        return state._replace(position=part.position)

    def _select(self, state: State, rows: Tensor) -> State:
        """Select sources by index, `rows` `(b',)`, with all their hypotheses."""
        taken = keras.tree.map_structure(lambda part: gather(part, rows), state._replace(position=()))
        return taken._replace(position=state.position)

    def _grow(self, state: State, num_positions: Tensor | int) -> State:
        """Extend the token ids, by padding, and the cache."""
        grown = {}
        for name in self.token_fields:
            tokens = getattr(state, name)
            padding = ops.full(
                (*dynamic_shape(tokens)[:-1], num_positions), self._ids.pad, dtype=tokens.dtype
            )
            grown[name] = ops.concatenate([tokens, padding], axis=-1)
        return state._replace(**grown, cache=state.cache.grow(num_positions))


def _true_indices(condition: Tensor) -> Tensor:
    """Return the indices of the True elements of a boolean `(b,)`."""
    return ops.cast(ops.nonzero(condition)[0], "int32")
