"""The loop stops when its strategy says so."""

from typing import Any, NamedTuple

import pytest
from keras import ops

from keras_transformer.decoding.loop import run_search


class Count(NamedTuple):
    """A number that goes up."""

    position: Any
    total: Any


class Adder:
    """Adds what the step gives until a limit."""

    def is_running(self, state: Count, max_length: int) -> Any:
        return state.position < max_length

    def advance(self, state: Count, step: Any) -> Count:
        return Count(state.position + 1, state.total + step(state.position))


@pytest.mark.parametrize(("limit", "total"), [(0, 0), (1, 0), (5, 10)])
def test_it_advances_while_something_runs(limit: int, total: int) -> None:
    start = Count(ops.convert_to_tensor(0, "int32"), ops.convert_to_tensor(0, "int32"))
    state = run_search(Adder(), start, lambda position: position, limit)
    assert isinstance(state, Count)
    assert (int(state.position), int(state.total)) == (limit, total)
