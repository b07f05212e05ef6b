"""Search: its description, its contract with a model, and the loop that drives it.

A search reads a model through `Step` alone, so that it is tested without a Transformer.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, get_args

import keras
from keras import ops

from keras_transformer._arguments import check_choice, check_kind, check_number
from keras_transformer._backend.gather import shape_of, take
from keras_transformer._backend.loop import PositionBuffer
from keras_transformer.decoding.constraints import (
    NO_CONSTRAINTS,
    Constraints,
    _is_absent,
    _Limits,
)
from keras_transformer.decoding.log_probabilities import (
    LengthNormalization,
    _length_penalty,
    _next_token_log_probabilities,
)
from keras_transformer.types import SpecialIds, Tensor

# Positions that a loop has room for at first. Attention reads all of them, so the room for a short output
# must not be that of the longest.
CHUNK = 32
# Sources, of which the last quarter goes on by itself where sizes are known: 32 sources of a trained model,
# compiled by XLA on two cores, take 0.8 of the time.
_MANY = 16


class _Cache(Protocol):
    """State of a model between steps: a nest of tensors `(b, any)`, for `n` hypotheses of each source."""

    @property
    def attention_sums(self) -> Tensor:
        """float32 `(b, n, s)`: the attention to each source position so far; `()` unless it is tracked."""

    @property
    def encoder_padding_mask(self) -> Tensor:
        """`(b, s)`, True where the source has a token; `()` where it has one everywhere."""

    def reorder(self, rows: Tensor) -> "_Cache":
        """Let each hypothesis continue the one of the same source that `rows` `(b * n,)` names."""

    def grow(self, num_positions: Tensor | int) -> "_Cache":
        """Make room for so many positions more."""


Step = Callable[[Tensor, Tensor, _Cache], tuple[Tensor, _Cache]]
"""`(token_ids (b * n,), position, cache) -> (logits (b * n, v), cache)`."""


class SearchResult(NamedTuple):
    """The hypotheses of a search, best first."""

    token_ids: Tensor
    """int32 `(b, n, T)`: without the start token, with the end token, then padding."""
    scores: Tensor
    """float32 `(b, n)`: log-probability, divided by the length penalty."""


class _Request(NamedTuple):
    """The inputs of a search, apart from the model."""

    batch_size: Tensor | int  # the number of sources, `b`; a tensor where a traced graph does not know it
    max_length: int  # the most tokens of a hypothesis, the end token included, `T`
    source_lengths: Tensor | None = None  # integers `(b,)`, for limits that depend on them
    prefix_ids: Tensor | None = None  # integers `(b, p)`, padded: what hypotheses of a source begin with
    score_prefix: bool = True  # whether its tokens count in the scores
    first_ids: Tensor | None = None  # integers `(b,)`: the token before the first; None for the start token
    source_numbers: Tensor | None = None  # integers `(b,)`, by which sampling tells sources apart
    max_lengths: Tensor | None = None  # int32 `(b,)`, see `generate`; where the loop changes sizes
    length_penalties: Tensor | None = None  # float32 `(b,)`, see `generate`
    room: int = CHUNK  # the positions that a loop of known sizes has room for at first

    @property
    def sizes_change(self) -> bool:
        """Whether the loop may change sizes: in a graph of TensorFlow."""
        return PositionBuffer.may_grow(self.batch_size)

    @property
    def first_room(self) -> Tensor | int:
        """The positions that a cache must have room for; 0 where sizes change: that loop makes its own."""
        return self.batch_size * 0 if self.sizes_change else min(self.room, self.max_length)


# A named tuple of each search's own, with the fields `position`, `limits` and `cache`; others are tensors
# whose first axis is the sources.
State: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search(abc.ABC):
    """Base of `GreedySearch`, `SampleSearch` and `BeamSearch`: what they share, and the loop.

    A search is a description: equal ones are equal and have one hash, `dataclasses.replace` makes another.
    """

    length_penalty: float = 0.0
    """Exponent of the length, which scores are divided by; 0 for none."""
    length_normalization: LengthNormalization = "gnmt"
    """What the exponent belongs to: "gnmt" for `(5 + length) / 6`, Wu et al. 2016, section 7; "length"
    itself, as in transformers and CTranslate2; "generated_length" for that without `first_token_ids`, as
    transformers has it for Whisper."""
    constraints: Constraints = NO_CONSTRAINTS
    """Rules for the tokens that are generated."""
    special_ids: SpecialIds | None = None
    """The special tokens of the target; None for those of a `Translator`'s tokenizer."""

    kinds: ClassVar[dict[str, type["Search"]]] = {}
    """The classes that can be saved, by their `kind`."""
    kind: ClassVar[str]
    """The name by which a saved search is found again; a class without one of its own cannot be saved."""
    token_fields: ClassVar[tuple[str, ...]]
    """The fields of the state that grow with the hypotheses: token ids `(b, n, t)`."""

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
        # Of a default, a model that was trained with other ids would make rubbish.
        if self.special_ids is None:
            name = type(self).__name__
            raise ValueError(
                "`special_ids` must say which token ids are padding, unknown, start and end, as in "
                f"{name}(..., special_ids=SpecialIds(pad=0, unknown=1, start=2, end=3)), which `types` has. "
                "Received: None."
            )
        return self.special_ids

    @property
    def beam_size(self) -> int:
        """Hypotheses that the cache has for each source, `n`."""
        return 1

    @property
    def num_outputs(self) -> int:
        """Hypotheses that a result has for each source, at most `n`."""
        return self.beam_size

    @property
    def is_random(self) -> bool:
        """Whether another call may give another result."""
        return False

    @property
    def tracks_attention(self) -> bool:
        """Whether the cache must sum up the cross-attention."""
        return False

    def score(self, log_probabilities: Tensor, num_tokens: Tensor) -> Tensor:
        """Divide log-probabilities of hypotheses by the length penalty."""
        return self._divide(log_probabilities, num_tokens, self.length_penalty)

    def _divide(
        self, log_probabilities: Tensor, num_tokens: Tensor | int, exponent: Tensor | float
    ) -> Tensor:
        if self.length_normalization == "generated_length":
            num_tokens = num_tokens - len(self.constraints.first_token_ids)
        return log_probabilities / _length_penalty(num_tokens, exponent, self.length_normalization)

    def _scores(self, log_probabilities: Tensor, num_tokens: Tensor | int, limits: _Limits) -> Tensor:
        """Divide log-probabilities `(b,)` or `(b, n)` by the length penalty of each source."""
        penalties = limits.length_penalties
        if _is_absent(penalties):
            return self.score(log_probabilities, num_tokens)
        penalties = ops.reshape(penalties, (-1, *[1] * (len(log_probabilities.shape) - 1)))
        return self._divide(log_probabilities, num_tokens, penalties)

    def __call__(self, step: Step, cache: _Cache, request: _Request) -> SearchResult:
        """Find likely sequences, with a cache that has room for `request.first_room` positions."""
        state = self.initialize(cache, request, request.first_room)
        # The batch says which form the loop has; a test compares both with the plain decoder.
        if not request.sizes_change:
            return self._run_with_known_sizes(state, step, request.room, request.max_length)
        # TensorFlow's scatter copies a buffer at each step, 4 ms for 33 MB against 0.1 ms in place. That is
        # safe here alone, where the loop has made its buffers itself and nothing else holds them.
        return self._run_with_changing_sizes(state, step, request.batch_size, request.max_length)

    @abc.abstractmethod
    def initialize(self, cache: _Cache, request: _Request, length: Tensor | int) -> State:
        """Make the state before the first token, with room for `length` tokens."""

    @abc.abstractmethod
    def is_running(self, state: State, max_length: int) -> Tensor:
        """Return for which sources another token may change the result; boolean `(b,)`."""

    @abc.abstractmethod
    def advance(self, state: State, step: Step, max_length: int) -> State:
        """Generate one token of every hypothesis."""

    @abc.abstractmethod
    def finalize(self, state: State, max_length: int) -> SearchResult:
        """Return the hypotheses, best first, padded to `max_length`."""

    def _first_ids(self, request: _Request) -> Tensor:
        """Return the token before the first, int32 `(b, n)`."""
        if request.first_ids is None:
            return ops.full((request.batch_size, self.beam_size), self._ids.start, dtype="int32")
        return ops.repeat(ops.cast(request.first_ids, "int32")[:, None], self.beam_size, axis=1)

    def _limits(self, request: _Request) -> _Limits:
        limits = self.constraints.limits(request.max_length, request.source_lengths, request.prefix_ids)
        if not (request.score_prefix or _is_absent(limits.prefix_ids)):
            is_given = ops.not_equal(limits.prefix_ids, self._ids.pad)
            limits = limits._replace(num_unscored=ops.sum(ops.cast(is_given, "int32"), axis=1))
        if request.length_penalties is not None:
            limits = limits._replace(length_penalties=request.length_penalties)
        if request.max_lengths is None:
            return limits
        if not request.sizes_change:
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
        """Turn logits `(b * n, v)` into log-probabilities: those of the model, and those under all rules."""
        log_probabilities = _next_token_log_probabilities(logits, self._ids)
        limits = limits.each(lambda limit: ops.repeat(limit, self.beam_size, axis=0))
        if not _is_absent(limits.num_unscored):
            is_given = limits.num_unscored > position - len(self.constraints.first_token_ids)
            log_probabilities = ops.where(is_given[:, None], 0.0, log_probabilities)
        max_length = limits.most(max_length)
        allowed = self.constraints.apply(
            log_probabilities, token_ids, position, limits, max_length, self._ids
        )
        return tuple(
            self.constraints.force(scores, position, max_length, self._ids.end)
            for scores in (log_probabilities, allowed)
        )

    def _padded(self, token_ids: Tensor, max_length: int) -> Tensor:
        """Pad hypotheses `(b, n, t)` to `(b, n, T)`."""
        batch_size, beam_size, length = shape_of(token_ids)
        room = ops.full((batch_size, beam_size, max_length - length), self._ids.pad, dtype="int32")
        return ops.reshape(ops.concatenate([token_ids, room], axis=-1), (batch_size, beam_size, max_length))

    def _run_with_known_sizes(self, state: State, step: Step, room: int, max_length: int) -> SearchResult:
        """Run with room for some positions, and go on with twice as many if need be."""
        # XLA cannot change a size while a loop runs, so loops of 32, 64, 128 ... positions follow each other,
        # each of which is entered only if a hypothesis has outgrown the one before. The last quarter of many
        # sources has a loop of its own, in the first room alone: each loop takes seconds to compile.
        last, batch_size = min(room, max_length), shape_of(state.last_ids)[0]
        few, are_many = batch_size // 4, room == CHUNK < max_length and batch_size >= _MANY
        num_left = 0 if are_many is False else ops.where(are_many, few, 0)
        state = self._advance_while(state, step, last, num_left, max_length)
        if are_many is not False:
            state = ops.cond(
                are_many, lambda: self._advance_few(state, step, last, few, max_length), lambda: state
            )
        if room >= max_length:
            return self.finalize(state, max_length)
        more = min(room, max_length - room)
        return ops.cond(
            ops.any(self.is_running(state, max_length)),
            lambda: self._run_with_known_sizes(self._grow(state, more), step, 2 * room, max_length),
            lambda: self.finalize(state, max_length),
        )

    def _run_with_changing_sizes(
        self, state: State, step: Step, batch_size: Tensor, max_length: int
    ) -> SearchResult:
        """Run until a quarter of the sources is done, put these aside, and go on with the others."""
        # A graph of TensorFlow, as in an export, meets batches of any size, whose longest output would
        # otherwise hold up all others. Leaving at a quarter costs few copies, and a step has few rows done.
        # A sum that depends on the batch: so the graph is traced for any length.
        room = batch_size * 0 + min(CHUNK, max_length)
        start = self._grow(state, room)
        nothing = self.finalize(start, max_length)

        def advance(numbers: Tensor, room: Tensor, result: SearchResult, *fields: Any) -> tuple[Tensor, ...]:
            more = ops.minimum(CHUNK, max_length - room) * ops.cast(fields[0] >= room, "int32")
            room = room + more
            state = self._grow(start._make(fields), more)
            # A hypothesis that is to be cut off may not grow while it waits for others.
            last = ops.minimum(room, ops.min(state.limits.most(max_length)))
            state = self._advance_while(state, step, last, shape_of(numbers)[0] * 3 // 4, max_length)
            is_running = ops.logical_and(
                self.is_running(state, max_length), state.position < state.limits.most(max_length)
            )
            done, running = _where(ops.logical_not(is_running)), _where(is_running)
            part = self.finalize(self._select(state, done), max_length)
            rows = take(numbers, done)[:, None]
            written = (ops.scatter_update(all_, rows, new) for all_, new in zip(result, part, strict=True))
            return take(numbers, running), room, SearchResult(*written), *self._select(state, running)

        first = ops.arange(batch_size, dtype="int32"), room, nothing, *start
        return ops.while_loop(lambda numbers, *_: shape_of(numbers)[0] > 0, advance, first)[2]

    def _advance_while(
        self, state: State, step: Step, last: Tensor | int, num_left: Tensor | int, max_length: int
    ) -> State:
        """Generate up to `last` tokens, as long as more than `num_left` sources run."""

        def goes_on(*fields: Any) -> Tensor:
            is_running = ops.cast(self.is_running(state._make(fields), max_length), "int32")
            return ops.logical_and(fields[0] < last, ops.sum(is_running) > num_left)

        fields = ops.while_loop(
            goes_on, lambda *fields: self.advance(state._make(fields), step, max_length), state
        )
        return state._make(fields)

    def _advance_few(self, state: State, step: Step, last: int, few: Tensor | int, max_length: int) -> State:
        """Advance the sources that run, at most `few`, without the others, and put them back."""
        is_running = ops.cast(self.is_running(state, max_length), "int32")
        _, rows = ops.top_k(is_running, few)
        part = self._advance_while(self._select(state, rows), step, last, 0, max_length)
        places = ops.arange(shape_of(is_running)[0]) + few
        places = ops.scatter_update(places, rows[:, None], ops.arange(few))
        state = keras.tree.map_structure(
            lambda old, new: take(ops.concatenate([new, old]), places),
            state._replace(position=()),
            part._replace(position=()),
        )
        return state._replace(position=part.position)

    def _select(self, state: State, rows: Tensor) -> State:
        """Take some sources, `rows` `(b',)`, with all their hypotheses."""
        taken = keras.tree.map_structure(lambda part: take(part, rows), state._replace(position=()))
        return taken._replace(position=state.position)

    def _grow(self, state: State, num_positions: Tensor | int) -> State:
        """Make room for more tokens, padding for now."""
        grown = {}
        for name in self.token_fields:
            tokens = getattr(state, name)
            room = ops.full((*shape_of(tokens)[:-1], num_positions), self._ids.pad, dtype=tokens.dtype)
            grown[name] = ops.concatenate([tokens, room], axis=-1)
        return state._replace(**grown, cache=state.cache.grow(num_positions))


def _where(condition: Tensor) -> Tensor:
    """Return the indices at which a boolean `(b,)` is true."""
    return ops.cast(ops.nonzero(condition)[0], "int32")
