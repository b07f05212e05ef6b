"""Greedy search: always the most likely next token."""

from typing import NamedTuple

from keras import ops

from keras_transformer.decoding.contract import Cache, SearchResult, SpecialIds, Step
from keras_transformer.decoding.loop import run_search
from keras_transformer.decoding.scores import (
    check_length_penalty,
    length_penalty,
    next_token_log_probabilities,
)
from keras_transformer.types import Tensor


class GreedyState(NamedTuple):
    """What changes from step to step."""

    position: Tensor
    """An integer scalar: how many tokens were generated."""
    token_ids: Tensor
    """`(T + 1, b)`, the start token first; time first, to be written in place."""
    log_probabilities: Tensor
    """float32 `(b,)`, of the hypothesis so far."""
    lengths: Tensor
    """int32 `(b,)`, tokens so far, the end token included."""
    ended: Tensor
    """bool `(b,)`."""
    cache: Cache
    """The model's."""


class GreedySearch:
    """Takes the most likely token at each step, until every row has ended.

    Args:
        length_penalty: of the score that is reported; the search ignores it.
        special_ids: which tokens are special.

    Raises:
        ValueError: a negative length penalty.
    """

    beam_size = 1

    def __init__(self, *, length_penalty: float = 0.0, special_ids: SpecialIds | None = None) -> None:
        check_length_penalty(length_penalty)
        self.length_penalty = length_penalty
        self.special_ids = special_ids or SpecialIds()

    def __call__(self, step: Step, cache: Cache, batch_size: Tensor | int, max_length: int) -> SearchResult:
        """Search; see `Search`."""
        state = self.initialize(cache, batch_size, max_length)
        return self.finalize(run_search(self, state, step, max_length))

    def initialize(self, cache: Cache, batch_size: Tensor | int, max_length: int) -> GreedyState:
        """Make the state before the first token.

        Args:
            cache: the model's.
            batch_size: the number of sources, `b`.
            max_length: the most tokens, `T`.

        Returns:
            The state.
        """
        token_ids = ops.full((max_length + 1, batch_size), self.special_ids.pad, dtype="int32")
        start = ops.full((1, batch_size), self.special_ids.start, dtype="int32")
        return GreedyState(
            position=ops.convert_to_tensor(0, "int32"),
            token_ids=ops.concatenate([start, token_ids[1:]], axis=0),
            log_probabilities=ops.zeros((batch_size,), "float32"),
            lengths=ops.zeros((batch_size,), "int32"),
            ended=ops.zeros((batch_size,), "bool"),
            cache=cache,
        )

    def is_running(self, state: GreedyState, max_length: int) -> Tensor:
        """Say whether some row has not ended.

        Args:
            state: after a step.
            max_length: the most tokens of a hypothesis.

        Returns:
            A boolean scalar.
        """
        return ops.logical_and(state.position < max_length, ops.logical_not(ops.all(state.ended)))

    def advance(self, state: GreedyState, step: Step) -> GreedyState:
        """Generate one token of every row.

        Args:
            state: before the token.
            step: the model.

        Returns:
            The state after it.
        """
        logits, cache = step(ops.take(state.token_ids, state.position, axis=0), state.position, state.cache)
        log_probabilities = next_token_log_probabilities(logits, self.special_ids)
        token_ids = ops.cast(ops.argmax(log_probabilities, axis=-1), "int32")
        gained = ops.where(state.ended, 0.0, ops.max(log_probabilities, axis=-1))
        token_ids = ops.where(state.ended, self.special_ids.pad, token_ids)
        return GreedyState(
            position=state.position + 1,
            token_ids=ops.scatter_update(
                state.token_ids, ops.reshape(state.position + 1, (1, 1)), token_ids[None]
            ),
            log_probabilities=state.log_probabilities + gained,
            lengths=state.lengths + ops.cast(ops.logical_not(state.ended), "int32"),
            ended=ops.logical_or(state.ended, ops.equal(token_ids, self.special_ids.end)),
            cache=cache,
        )

    def finalize(self, state: GreedyState) -> SearchResult:
        """Give the result.

        Args:
            state: after the last token.

        Returns:
            One hypothesis for each source.
        """
        scores = state.log_probabilities / length_penalty(state.lengths, self.length_penalty)
        token_ids = ops.transpose(state.token_ids[1:])  # (b, T)
        return SearchResult(token_ids[:, None, :], scores[:, None])
