"""What all searches have in common: options, constraints, and the way through the loop."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from keras import ops

from keras_transformer.backend import in_compiler, written_in_place
from keras_transformer.decoding.constraints import Constraints, force_prefix
from keras_transformer.decoding.log_probabilities import check_length_penalty, next_token_log_probabilities
from keras_transformer.types import SpecialIds, Tensor


class Limits(NamedTuple):
    """Bounds of the answers to each source; `()` stands for none, which a loop can carry."""

    shortest: Tensor = ()
    """int32 `(b,)`: the fewest tokens."""
    longest: Tensor = ()
    """int32 `(b,)`: the most tokens."""
    prefix_ids: Tensor = ()
    """int32 `(b, p)`, padded: what the answers begin with."""

    def select(self, rows: Tensor) -> "Limits":
        """Take some sources.

        Args:
            rows: integers `(b',)`, which of them.

        Returns:
            Their limits.
        """
        return Limits(*(part if is_absent(part) else ops.take(part, rows, axis=0) for part in self))

    def repeat(self, beam_size: int) -> "Limits":
        """Give every hypothesis the limits of its source.

        Args:
            beam_size: hypotheses for each source, `n`.

        Returns:
            Limits of `b * n` rows.
        """
        return Limits(*(part if is_absent(part) else ops.repeat(part, beam_size, axis=0) for part in self))


def is_absent(part: Tensor) -> bool:
    """Say whether a part of a state stands for nothing.

    Args:
        part: a tensor or `()`.

    Returns:
        True for `()`.
    """
    return isinstance(part, tuple)


class Cache(Protocol):
    """What a model keeps between steps: any nest of tensors that can be reordered."""

    def reorder(self, rows: Tensor) -> "Cache":
        """Take hypotheses in another order.

        Args:
            rows: integers `(b * n,)`, which old hypothesis of the same source each new one continues.

        Returns:
            The reordered cache.
        """

    def select(self, rows: Tensor) -> "Cache":
        """Take some sources with all their hypotheses.

        Args:
            rows: integers `(b',)`, which of the sources.

        Returns:
            The cache of these sources.
        """

    def grow(self, num_positions: Tensor | int) -> "Cache":
        """Make room for more positions.

        Args:
            num_positions: how many more.

        Returns:
            The longer cache.
        """


Step = Callable[[Tensor, Tensor, Cache], tuple[Tensor, Cache]]
"""`(token_ids (b * n,), position, cache) -> (logits (b * n, v), cache)`."""


class SearchResult(NamedTuple):
    """The hypotheses of a search, best first."""

    token_ids: Tensor
    """`(b, n, T)`: without the start token, with the end token, then padding."""
    scores: Tensor
    """float32 `(b, n)`: log-probability, divided by the length penalty."""


class Request(NamedTuple):
    """What is asked of a search, beside the model."""

    batch_size: Tensor | int
    """The number of sources, `b`; a tensor where it is not known while a graph is traced."""
    max_length: int
    """The most tokens of a hypothesis, the end token included, `T`."""
    source_lengths: Tensor | None = None
    """Integers `(b,)`, for bounds that depend on them."""
    prefix_ids: Tensor | None = None
    """Integers `(b, p)`, padded: what the hypotheses of each source must begin with."""
    first_ids: Tensor | None = None
    """Integers `(b,)`: the token before the first; None for the start token."""
    source_numbers: Tensor | None = None
    """Integers `(b,)`, by which a search that draws tells the sources apart; None for 0 to `b - 1`."""
    seed: Tensor | None = None
    """An integer scalar, for a search that draws and has no seed of its own; None lets it draw one."""


class Search(Protocol):
    """A search strategy."""

    beam_size: int
    """Hypotheses that are kept for each source, `n`."""
    num_hypotheses: int
    """Hypotheses that are given back for each source, at most `beam_size`."""
    tracks_attention: bool
    """Whether the cache must sum up the cross-attention."""

    def __call__(self, step: Step, cache: Cache, request: Request) -> SearchResult:
        """Find likely sequences.

        Args:
            step: the model.
            cache: made for `beam_size` hypotheses and as many positions as `loop.first_length` says.
            request: sizes, and what the answers are bound to.

        Returns:
            Hypotheses for each source, best first.
        """


State = TypeVar("State", bound=Any)

CHUNK = 32
"""The room for tokens that a search starts with and, where sizes may change, grows by."""


class Strategy(Protocol[State]):
    """What a search does at each step."""

    axes: ClassVar[dict[str, str]]
    """The letters of each field of the state: `b` sources, `n` hypotheses, `t` positions; besides
    `position`, a scalar, `limits` and `cache`. What has positions is token ids."""
    special_ids: SpecialIds
    """Which token fills new positions."""

    def is_running(self, state: State, max_length: int) -> Tensor:
        """Say for which sources another token may change the result; boolean `(b,)`."""

    def advance(self, state: State, step: Step, max_length: int) -> State:
        """Generate one token of every hypothesis."""

    def finalize(self, state: State, max_length: int) -> SearchResult:
        """Give the hypotheses, padded to `max_length`."""


def first_length(max_length: int, batch_size: Tensor | int) -> Tensor | int:
    """Say how much room a search starts with.

    Args:
        max_length: the most tokens of a hypothesis.
        batch_size: the number of sources, as far as it is known.

    Returns:
        The number of positions that a cache must have room for. None at all where sizes may
        change: there the loop makes its own.
    """
    if isinstance(batch_size, int) or in_compiler():
        return min(CHUNK, max_length)
    return batch_size * 0


def run_search(
    strategy: Strategy[State], state: State, step: Step, batch_size: Tensor | int, max_length: int
) -> SearchResult:
    """Advance until nothing is running.

    Args:
        strategy: the search.
        state: before the first token, a named tuple of tensors.
        step: the model.
        batch_size: the number of sources, `b`.
        max_length: the most tokens of a hypothesis.

    Returns:
        The hypotheses.
    """
    if isinstance(batch_size, int) or in_compiler():
        return _run_with_known_sizes(strategy, state, step, CHUNK, max_length)
    with written_in_place():
        return _run_with_changing_sizes(strategy, state, step, batch_size, max_length)


def _run_with_known_sizes(
    strategy: Strategy[State], state: State, step: Step, length: int, max_length: int
) -> SearchResult:
    """Run with room for `length` positions, and go on with twice as many if need be."""

    def is_running(state: State) -> Tensor:
        return ops.any(strategy.is_running(state, max_length))

    state = _advance_while(
        strategy,
        state,
        step,
        lambda state: ops.logical_and(state.position < min(length, max_length), is_running(state)),
        max_length,
    )
    if length >= max_length:
        return strategy.finalize(state, max_length)
    more = min(length, max_length - length)
    return ops.cond(
        is_running(state),
        lambda: _run_with_known_sizes(strategy, grow(strategy, state, more), step, 2 * length, max_length),
        lambda: strategy.finalize(state, max_length),
    )


def _run_with_changing_sizes(
    strategy: Strategy[State], state: State, step: Step, batch_size: Tensor, max_length: int
) -> SearchResult:
    """Run until a quarter of the sources is done, put these aside, and go on with the others."""
    kind: Any = type(state)
    # A sum that depends on the batch: so the graph is traced for any length.
    length = batch_size * 0 + min(CHUNK, max_length)
    state = grow(strategy, state, length)
    nothing = strategy.finalize(state, max_length)

    def advance(rows: Tensor, length: Tensor, result: SearchResult, *fields: Tensor) -> tuple[Any, ...]:
        more = ops.minimum(CHUNK, max_length - length) * ops.cast(fields[0] >= length, "int32")
        length = length + more
        state = _advance_while(
            strategy,
            grow(strategy, kind(*fields), more),
            step,
            lambda state: ops.logical_and(state.position < length, _most(strategy, state, max_length)),
            max_length,
        )
        is_running = ops.logical_and(strategy.is_running(state, max_length), state.position < max_length)
        done, going = _where(ops.logical_not(is_running)), _where(is_running)
        result = _put(
            result, ops.take(rows, done), strategy.finalize(select(strategy, state, done), max_length)
        )
        return ops.take(rows, going), length, result, *select(strategy, state, going)

    start = ops.arange(batch_size, dtype="int32"), length, nothing, *state
    return ops.while_loop(lambda rows, *_: ops.shape(rows)[0] > 0, advance, start)[2]


def _advance_while(
    strategy: Strategy[State], state: State, step: Step, condition: Any, max_length: int
) -> State:
    kind: Any = type(state)
    fields = ops.while_loop(
        lambda *fields: condition(kind(*fields)),
        lambda *fields: strategy.advance(kind(*fields), step, max_length),
        state,
    )
    return kind(*fields)


def _most(strategy: Strategy[State], state: State, max_length: int) -> Tensor:
    """Say whether more than three quarters of the sources are running."""
    is_running = ops.cast(strategy.is_running(state, max_length), "int32")
    return ops.sum(is_running) * 4 > ops.shape(is_running)[0] * 3


def _where(condition: Tensor) -> Tensor:
    """Give the indices at which a boolean `(b,)` is true."""
    return ops.cast(ops.nonzero(condition)[0], "int32")


def _put(result: SearchResult, rows: Tensor, part: SearchResult) -> SearchResult:
    """Write the hypotheses of some sources."""
    return SearchResult(
        *(ops.scatter_update(all_, rows[:, None], new) for all_, new in zip(result, part, strict=True))
    )


def select(strategy: Strategy[State], state: State, rows: Tensor) -> State:
    """Take some sources with all their hypotheses.

    Args:
        strategy: whose state it is.
        state: of `b` sources.
        rows: integers `(b',)`, which of the sources.

    Returns:
        The state of these sources.
    """
    taken = {
        name: ops.take(getattr(state, name), rows, axis=letters.index("b"))
        for name, letters in strategy.axes.items()
        if "b" in letters
    }
    return state._replace(**taken, limits=state.limits.select(rows), cache=state.cache.select(rows))


def grow(strategy: Strategy[State], state: State, num_positions: Tensor | int) -> State:
    """Make room for more tokens.

    Args:
        strategy: whose state it is.
        state: with room for some.
        num_positions: how many more.

    Returns:
        The state, padding where there is room now.
    """
    grown, pad = {}, strategy.special_ids.pad
    for name, letters in strategy.axes.items():
        if "t" in letters:
            tokens, axis = getattr(state, name), letters.index("t")
            sizes = [*ops.shape(tokens)]
            sizes[axis] = num_positions
            grown[name] = ops.concatenate([tokens, ops.full(sizes, pad, dtype=tokens.dtype)], axis=axis)
    return state._replace(**grown, cache=state.cache.grow(num_positions))


def pad_tokens(token_ids: Tensor, pad_id: int, max_length: int) -> Tensor:
    """Pad hypotheses to one length.

    Args:
        token_ids: `(b, n, t)`.
        pad_id: what fills them.
        max_length: the length that is wanted, `T`.

    Returns:
        `(b, n, T)`.
    """
    batch_size, beam_size, length = ops.shape(token_ids)
    room = ops.full((batch_size, beam_size, max_length - length), pad_id, dtype="int32")
    padded = ops.concatenate([token_ids, room], axis=-1)
    return ops.reshape(padded, (batch_size, beam_size, max_length))


class GuidedSearch(abc.ABC):
    """The base of `GreedySearch`, `SampleSearch` and `BeamSearch`.

    Args:
        length_penalty: the exponent of the GNMT length penalty; 0 for none.
        constraints: what may not be generated; None for no rules.
        special_ids: which tokens are special.

    Raises:
        ValueError: a negative length penalty.
    """

    axes: ClassVar[dict[str, str]]
    beam_size: int = 1
    num_hypotheses: int = 1
    tracks_attention: bool = False

    def __init__(
        self,
        *,
        length_penalty: float,
        constraints: Constraints | None,
        special_ids: SpecialIds | None,
    ) -> None:
        check_length_penalty(length_penalty)
        self.length_penalty = length_penalty
        self.constraints = constraints or Constraints()
        self.special_ids = special_ids or SpecialIds()

    def __call__(self, step: Step, cache: Cache, request: Request) -> SearchResult:
        """Search; see `Search`."""
        length = first_length(request.max_length, request.batch_size)
        state = self.initialize(cache, request, length)
        return run_search(self, state, step, request.batch_size, request.max_length)

    @abc.abstractmethod
    def initialize(self, cache: Cache, request: Request, length: Tensor | int) -> Any:
        """Make the state before the first token.

        Args:
            cache: the model's.
            request: see `Request`.
            length: the room for tokens, as in the cache.

        Returns:
            The state, a named tuple.
        """

    @abc.abstractmethod
    def is_running(self, state: Any, max_length: int) -> Tensor:
        """Say for which sources another token may change the result; boolean `(b,)`."""

    @abc.abstractmethod
    def advance(self, state: Any, step: Step, max_length: int) -> Any:
        """Generate one token of every hypothesis."""

    @abc.abstractmethod
    def finalize(self, state: Any, max_length: int) -> SearchResult:
        """Give the hypotheses, best first, padded to `max_length`."""

    def _limits(self, request: Request) -> Limits:
        """Compute what the answers are bound to."""
        shortest, longest = self.constraints.bounds(request.source_lengths, request.max_length)
        if request.prefix_ids is None:
            return Limits(shortest, longest)
        return Limits(shortest, longest, ops.cast(request.prefix_ids, "int32"))

    def _first_ids(self, request: Request) -> Tensor:
        """Give the token before the first, int32 `(b, n)`."""
        if request.first_ids is None:
            return ops.full((request.batch_size, self.beam_size), self.special_ids.start, dtype="int32")
        return ops.repeat(ops.cast(request.first_ids, "int32")[:, None], self.beam_size, axis=1)

    def _is_free(self, limits: Limits) -> bool:
        """Say whether every ordinary token may always follow."""
        return self.constraints == Constraints() and is_absent(limits.prefix_ids)

    def _allowed(
        self, logits: Tensor, token_ids: Tensor, position: Tensor, limits: Limits, max_length: int
    ) -> tuple[Tensor, Tensor]:
        """Turn logits `(b * n, v)` into log-probabilities: the model's, and those under all rules.

        `token_ids` are those so far, `(b, n, t)`.
        """
        log_probabilities = next_token_log_probabilities(logits, self.special_ids)
        limits = limits.repeat(self.beam_size)
        history = None
        if self.constraints.needs_history:
            history = ops.reshape(token_ids, (-1, ops.shape(token_ids)[2]))
        allowed = self.constraints.apply(
            log_probabilities,
            history,
            position,
            limits.shortest,
            limits.longest,
            max_length=max_length,
            special_ids=self.special_ids,
        )
        if not is_absent(limits.prefix_ids):
            prefixes = limits.prefix_ids
            allowed = force_prefix(log_probabilities, prefixes, position, self.special_ids, allowed)
        return log_probabilities, allowed
