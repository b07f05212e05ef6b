"""Beam search: the most likely sequences, a few kept at a time."""

from typing import NamedTuple

from keras import ops

from keras_transformer.decoding.contract import Cache, SearchResult, SpecialIds, Step
from keras_transformer.decoding.loop import run_search
from keras_transformer.decoding.scores import (
    LOWEST_SCORE,
    check_length_penalty,
    length_penalty,
    next_token_log_probabilities,
)
from keras_transformer.layers.validation import check_positive
from keras_transformer.types import Tensor


class BeamState(NamedTuple):
    """What changes from step to step."""

    position: Tensor
    """An integer scalar: how many tokens were generated."""
    running_ids: Tensor
    """`(b, n, T + 1)`, the start token first."""
    running_log_probabilities: Tensor
    """float32 `(b, n)`, best first."""
    finished_ids: Tensor
    """`(b, n, T + 1)`, hypotheses that ended."""
    finished_scores: Tensor
    """float32 `(b, n)`, best first, `LOWEST_SCORE` where there is none yet."""
    cache: Cache
    """The model's, `b * n` hypotheses."""


class BeamSearch:
    """Keeps the `n` most likely running hypotheses, and the `n` best finished ones.

    A hypothesis that ended is never extended, and competes by its score. The
    search stops when no running hypothesis can overtake the worst finished
    one. Hypotheses that reach the maximal length without an end token fill
    the places that finished ones leave free.

    Args:
        beam_size: hypotheses that are kept for each source, `n`.
        length_penalty: the exponent of the GNMT length penalty; 0 for none.
        special_ids: which tokens are special.

    Raises:
        ValueError: a beam size not above zero or a negative length penalty.
    """

    def __init__(
        self,
        beam_size: int = 4,
        *,
        length_penalty: float = 1.0,
        special_ids: SpecialIds | None = None,
    ) -> None:
        check_positive(beam_size=beam_size)
        check_length_penalty(length_penalty)
        self.beam_size = beam_size
        self.length_penalty = length_penalty
        self.special_ids = special_ids or SpecialIds()

    def __call__(self, step: Step, cache: Cache, batch_size: Tensor | int, max_length: int) -> SearchResult:
        """Search; see `Search`."""
        state = self.initialize(cache, batch_size, max_length)
        return self.finalize(run_search(self, state, step, max_length))

    def initialize(self, cache: Cache, batch_size: Tensor | int, max_length: int) -> BeamState:
        """Make the state before the first token.

        Args:
            cache: the model's.
            batch_size: the number of sources, `b`.
            max_length: the most tokens, `T`.

        Returns:
            The state: one running hypothesis for each source, none finished.
        """
        size = self.beam_size
        padding = ops.full((batch_size, size, max_length), self.special_ids.pad, dtype="int32")
        start = ops.full((batch_size, size, 1), self.special_ids.start, dtype="int32")
        token_ids = ops.concatenate([start, padding], axis=-1)
        nothing = ops.full((batch_size, size), LOWEST_SCORE, dtype="float32")
        # All hypotheses start alike, so only the first may count.
        certain = ops.zeros((batch_size, 1), "float32")
        return BeamState(
            position=ops.convert_to_tensor(0, "int32"),
            running_ids=token_ids,
            running_log_probabilities=ops.concatenate([certain, nothing[:, 1:]], axis=1),
            finished_ids=token_ids,
            finished_scores=nothing,
            cache=cache,
        )

    def is_running(self, state: BeamState, max_length: int) -> Tensor:
        """Say whether some running hypothesis may still win a place.

        Its score can at best become its log-probability now, divided by the
        penalty of the longest hypothesis.

        Args:
            state: after a step.
            max_length: the most tokens of a hypothesis.

        Returns:
            A boolean scalar.
        """
        best_running = state.running_log_probabilities[:, 0] / length_penalty(max_length, self.length_penalty)
        overtakes = best_running > state.finished_scores[:, -1]
        can_win = ops.any(ops.logical_and(overtakes, _is_possible(best_running)))
        return ops.logical_and(state.position < max_length, can_win)

    def advance(self, state: BeamState, step: Step) -> BeamState:
        """Extend every running hypothesis by one token.

        Args:
            state: before the token.
            step: the model.

        Returns:
            The state after it.
        """
        log_probabilities, beams, token_ids, cache = self._candidates(state, step)
        position = state.position + 1
        candidate_ids = _take_rows(state.running_ids, beams)  # (b, 2n, T + 1)
        at_position = ops.equal(ops.arange(candidate_ids.shape[-1]), position)
        candidate_ids = ops.where(at_position, token_ids[..., None], candidate_ids)
        ended = ops.equal(token_ids, self.special_ids.end)
        # As everywhere, only the `n` best may end: so a beam of one is greedy search.
        is_best = ops.arange(2 * self.beam_size) < self.beam_size
        may_finish = ops.logical_and(ops.logical_and(ended, is_best), _is_possible(log_probabilities))

        running, order = ops.top_k(ops.where(ended, LOWEST_SCORE, log_probabilities), self.beam_size)
        scores = log_probabilities / length_penalty(position, self.length_penalty)
        finished_scores, finished_ids = _best(
            ops.concatenate([state.finished_scores, ops.where(may_finish, scores, LOWEST_SCORE)], axis=1),
            ops.concatenate([state.finished_ids, candidate_ids], axis=1),
            self.beam_size,
        )
        rows = _flat_rows(_take_rows(beams, order), self.beam_size)
        return BeamState(
            position=position,
            running_ids=_take_rows(candidate_ids, order),
            running_log_probabilities=running,
            finished_ids=finished_ids,
            finished_scores=finished_scores,
            cache=cache.reorder(rows),
        )

    def finalize(self, state: BeamState) -> SearchResult:
        """Rank the hypotheses, those that ended before those that did not.

        Args:
            state: after the last token.

        Returns:
            `beam_size` hypotheses for each source, best first; where there are fewer
            sequences, the rest is padding and scores `LOWEST_SCORE`.
        """
        running_scores = state.running_log_probabilities / length_penalty(state.position, self.length_penalty)
        # Places that are still free come last: below any score, above nothing.
        is_free = state.finished_scores <= LOWEST_SCORE
        num_free = ops.sum(ops.cast(is_free, "int32"), axis=1, keepdims=True)  # (b, 1)
        fills = ops.arange(self.beam_size)[None, :] - (self.beam_size - num_free)
        source = ops.maximum(fills, 0)  # which running hypothesis fills a free place
        scores = ops.where(
            is_free, ops.take_along_axis(running_scores, source, axis=1), state.finished_scores
        )
        token_ids = ops.where(is_free[..., None], _take_rows(state.running_ids, source), state.finished_ids)
        # There may be fewer sequences than places.
        is_possible = _is_possible(scores)
        token_ids = ops.where(is_possible[..., None], token_ids, self.special_ids.pad)
        return SearchResult(token_ids[:, :, 1:], ops.where(is_possible, scores, LOWEST_SCORE))

    def _candidates(self, state: BeamState, step: Step) -> tuple[Tensor, Tensor, Tensor, Cache]:
        """Find the `2n` most likely extensions: enough, should `n` of them end.

        Returns:
            Log-probabilities, beams and tokens, each `(b, 2n)`, and the cache.
        """
        last_ids = ops.take(state.running_ids, state.position, axis=2)  # (b, n)
        logits, cache = step(ops.reshape(last_ids, (-1,)), state.position, state.cache)
        size, vocabulary_size = self.beam_size, logits.shape[-1]
        log_probabilities = next_token_log_probabilities(logits, self.special_ids)
        totals = state.running_log_probabilities[:, :, None] + ops.reshape(
            log_probabilities, (-1, size, vocabulary_size)
        )  # (b, n, v)
        best, indices = ops.top_k(ops.reshape(totals, (-1, size * vocabulary_size)), 2 * size)
        indices = ops.cast(indices, "int32")
        return best, indices // vocabulary_size, indices % vocabulary_size, cache


def _is_possible(log_probabilities: Tensor) -> Tensor:
    """Tell sequences of some probability from those that hold a banned token."""
    return log_probabilities > LOWEST_SCORE / 1e6


def _best(scores: Tensor, token_ids: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Keep the `size` best of hypotheses `(b, m)` and their tokens `(b, m, T + 1)`."""
    scores, order = ops.top_k(scores, size)
    return scores, _take_rows(token_ids, order)


def _take_rows(values: Tensor, order: Tensor) -> Tensor:
    """Take from axis 1 of `(b, m, ...)` by indices `(b, n)`."""
    order = ops.cast(order, "int32")
    if len(values.shape) == 3:
        order = order[..., None]
    return ops.take_along_axis(values, order, axis=1)


def _flat_rows(beams: Tensor, size: int) -> Tensor:
    """Turn beams `(b, n)` into rows of a cache of `b * n` hypotheses."""
    offsets = ops.arange(ops.shape(beams)[0], dtype="int32") * size
    return ops.reshape(beams + offsets[:, None], (-1,))
