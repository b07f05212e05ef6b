"""The loop that drives a search, in the graph where the backend has one."""

from typing import Any, NamedTuple, Protocol, TypeVar

from keras import ops

from keras_transformer.decoding.contract import Step
from keras_transformer.types import Tensor

State = TypeVar("State", bound=NamedTuple)


class Strategy(Protocol[State]):
    """What a search does at each step."""

    def is_running(self, state: State, max_length: int) -> Tensor:
        """Say whether another token may change the result; a boolean scalar."""

    def advance(self, state: State, step: Step) -> State:
        """Generate one token of every hypothesis."""


def run_search(strategy: Strategy[State], state: State, step: Step, max_length: int) -> State:
    """Advance until nothing is running.

    Args:
        strategy: the search.
        state: before the first token, a named tuple of tensors.
        step: the model.
        max_length: the most tokens of a hypothesis.

    Returns:
        The state after the last token.
    """
    kind: Any = type(state)
    fields = ops.while_loop(
        lambda *fields: strategy.is_running(kind(*fields), max_length),
        lambda *fields: strategy.advance(kind(*fields), step),
        state,
    )
    return kind(*fields)
