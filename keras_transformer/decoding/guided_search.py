"""What all searches have in common: options, constraints, and the way through the loop."""

import abc
from typing import Any, ClassVar

from keras import ops

from keras_transformer.decoding.constraints import Constraints
from keras_transformer.decoding.contract import Cache, Request, SearchResult, SpecialIds, Step
from keras_transformer.decoding.forced_prefix import force_prefix
from keras_transformer.decoding.limits import Limits, is_absent
from keras_transformer.decoding.loop import first_length, run_search
from keras_transformer.decoding.scores import check_length_penalty, next_token_log_probabilities
from keras_transformer.types import Tensor


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
