"""The loop that drives a search: in the graph where the backend has one.

Time and memory follow what is generated, not what might be: the room for tokens grows
with them. Where sizes may change while the graph runs (TensorFlow, the batch unknown when it
is traced), sources that are done also leave the batch. Where every size must be
known (XLA, JAX), the loop is a chain of loops, each with twice the room of the one before,
and each is entered only if it is needed.
"""

from typing import Any, ClassVar, Protocol, TypeVar

from keras import ops

from keras_transformer.decoding.contract import SearchResult, SpecialIds, Step
from keras_transformer.layers.buffers import written_in_place
from keras_transformer.layers.compiler import in_compiler
from keras_transformer.types import Tensor

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
