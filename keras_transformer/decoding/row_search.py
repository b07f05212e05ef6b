"""Searches that decide on each token at once and never look back."""

import abc
from typing import ClassVar, NamedTuple

from keras import ops

from keras_transformer.decoding.contract import Cache, Request, SearchResult, Step
from keras_transformer.decoding.guided_search import GuidedSearch
from keras_transformer.decoding.largest import top_k
from keras_transformer.decoding.limits import Limits
from keras_transformer.decoding.loop import pad_tokens
from keras_transformer.decoding.scores import length_penalty
from keras_transformer.decoding.token_rules import FORCED_LOG_PROBABILITY
from keras_transformer.types import Tensor


class RowState(NamedTuple):
    """What changes from step to step, and what it depends on."""

    position: Tensor
    """An integer scalar: how many tokens were generated."""
    last_ids: Tensor
    """int32 `(b, n)`: the token before; first the start token."""
    token_ids: Tensor
    """int32 `(b, n, t)`: the tokens so far, then padding."""
    log_probabilities: Tensor
    """float32 `(b, n)`, of the hypothesis so far."""
    lengths: Tensor
    """int32 `(b, n)`: tokens so far, the end token included."""
    ended: Tensor
    """bool `(b, n)`."""
    chance: Tensor
    """float32 `(b, n, T)`: uniform numbers, one for each step, or none, `(b, n, 0)`."""
    limits: Limits
    """Of each source."""
    cache: Cache
    """The model's."""


class RowSearch(GuidedSearch):
    """The base of `GreedySearch` and `SampleSearch`, whose hypotheses do not know of each other."""

    axes: ClassVar[dict[str, str]] = {
        "last_ids": "bn",
        "token_ids": "bnt",
        "log_probabilities": "bn",
        "lengths": "bn",
        "ended": "bn",
        "chance": "bnc",
    }

    def initialize(self, cache: Cache, request: Request, length: Tensor | int) -> RowState:
        """Make the state before the first token; see `GuidedSearch`."""
        sizes = request.batch_size, self.beam_size
        return RowState(
            position=ops.convert_to_tensor(0, "int32"),
            last_ids=self._first_ids(request),
            token_ids=ops.full((*sizes, length), self.special_ids.pad, dtype="int32"),
            log_probabilities=ops.zeros(sizes, "float32"),
            lengths=ops.zeros(sizes, "int32"),
            ended=ops.zeros(sizes, "bool"),
            chance=self._chance(request),
            limits=self._limits(request),
            cache=cache,
        )

    def is_running(self, state: RowState, max_length: int) -> Tensor:
        """Say which sources have a hypothesis that has not ended.

        Args:
            state: after a step.
            max_length: the most tokens of a hypothesis.

        Returns:
            Boolean `(b,)`.
        """
        return ops.logical_not(ops.all(state.ended, axis=1))

    def advance(self, state: RowState, step: Step, max_length: int) -> RowState:
        """Generate one token of every hypothesis.

        Args:
            state: before the token.
            step: the model.
            max_length: the most tokens of a hypothesis.

        Returns:
            The state after it.
        """
        logits, cache = step(ops.reshape(state.last_ids, (-1,)), state.position, state.cache)
        chosen, gained = self._choose(logits, state, max_length)
        chosen, gained = (ops.reshape(part, (-1, self.beam_size)) for part in (chosen, gained))
        gained = ops.where(state.ended, 0.0, ops.maximum(gained, FORCED_LOG_PROBABILITY))
        chosen = ops.where(state.ended, self.special_ids.pad, chosen)
        is_position = ops.equal(ops.arange(ops.shape(state.token_ids)[2], dtype="int32"), state.position)
        return state._replace(
            position=state.position + 1,
            last_ids=chosen,
            token_ids=ops.where(is_position, chosen[..., None], state.token_ids),
            log_probabilities=state.log_probabilities + gained,
            lengths=state.lengths + ops.cast(ops.logical_not(state.ended), "int32"),
            ended=ops.logical_or(state.ended, ops.equal(chosen, self.special_ids.end)),
            cache=cache,
        )

    def finalize(self, state: RowState, max_length: int) -> SearchResult:
        """Order the hypotheses of each source, the best score first.

        Args:
            state: after the last token.
            max_length: the length of the result, `T`.

        Returns:
            `n` hypotheses for each source.
        """
        scores = state.log_probabilities / length_penalty(state.lengths, self.length_penalty)
        token_ids = pad_tokens(state.token_ids, self.special_ids.pad, max_length)
        if self.beam_size == 1:
            return SearchResult(token_ids, scores)
        scores, order = top_k(scores, self.beam_size)
        return SearchResult(ops.take_along_axis(token_ids, order[..., None], axis=1), scores)

    def _chance(self, request: Request) -> Tensor:
        """Draw what the search needs of chance, `(b, n, any)`."""
        return ops.zeros((request.batch_size, self.beam_size, 0))

    @abc.abstractmethod
    def _choose(self, logits: Tensor, state: RowState, max_length: int) -> tuple[Tensor, Tensor]:
        """Choose a token for each row: int32 `(b * n,)`, and its log-probability."""
