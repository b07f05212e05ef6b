"""Beam search: the most likely sequences, a few kept at a time."""

from typing import Any, ClassVar, NamedTuple

from keras import ops

from keras_transformer.arguments import check_positive
from keras_transformer.backend import largest, take_each, top_k
from keras_transformer.decoding.constraints import Constraints, is_possible
from keras_transformer.decoding.log_probabilities import LOWEST_SCORE, best_tokens, length_penalty
from keras_transformer.decoding.search import (
    Cache,
    GuidedSearch,
    Limits,
    Request,
    SearchResult,
    Step,
    is_absent,
    pad_tokens,
)
from keras_transformer.decoding.validation import check_number
from keras_transformer.types import SpecialIds, Tensor


class BeamState(NamedTuple):
    """What changes from step to step, and what it depends on."""

    position: Tensor
    """An integer scalar: how many tokens were generated."""
    last_ids: Tensor
    """int32 `(b, n)`: the token before; first the start token."""
    running_ids: Tensor
    """int32 `(b, n, t)`: the tokens so far, then padding."""
    running_log_probabilities: Tensor
    """float32 `(b, n)`, best first."""
    finished_ids: Tensor
    """int32 `(b, n, t)`, hypotheses that ended."""
    finished_scores: Tensor
    """float32 `(b, n)`, best first, `LOWEST_SCORE` where there is none yet."""
    limits: Limits
    """Of each source."""
    cache: Cache
    """The model's, `b * n` hypotheses."""


class Candidates(NamedTuple):
    """The `2n` most likely extensions of a source: enough, should `n` of them end."""

    log_probabilities: Tensor
    """float32 `(b, 2n)`, best first."""
    beams: Tensor
    """int32 `(b, 2n)`: which hypothesis is extended."""
    token_ids: Tensor
    """int32 `(b, 2n)`: by which token."""


def flat_rows(beams: Tensor, size: int) -> Tensor:
    """Number hypotheses as a cache does.

    Args:
        beams: integers `(b, n)`, hypotheses of each source.
        size: hypotheses for each source in the cache.

    Returns:
        Integers `(b * n,)`.
    """
    offsets = ops.arange(ops.shape(beams)[0], dtype="int32") * size
    return ops.reshape(beams + offsets[:, None], (-1,))


# A source position that was never looked at counts as if it had been, this much: log 0 has no end.
SMALLEST_COVERAGE = 1e-6


def coverage_penalty(attention_sums: Tensor, source_mask: Tensor, beta: float) -> Tensor:
    """Compute what is added to the score of a hypothesis for the source positions it left out.

    `cp(X; Y) = beta * sum_i log(min(sum_j p_ij, 1))`, Wu et al. 2016 ("GNMT"), equation 14, where
    `p_ij` is the attention of the target position `j` to the source position `i`. It is zero where
    each position got as much attention as one target token gives, and negative otherwise.

    Args:
        attention_sums: `(r, s)`, for each source position the attention of all target positions,
            averaged over the heads.
        source_mask: `(r, s)` or `(1, s)`, True (1) where the source has a token; others do not count.
        beta: how much it counts; 0 for nothing.

    Returns:
        float32 `(r,)`, at least `beta * s * log(1e-6)` and at most 0.

    Raises:
        ValueError: a negative `beta`.

    Example:
        >>> penalty = coverage_penalty([[1.5, 0.5, 0.0]], [[True, True, False]], beta=1.0)
        >>> round(float(penalty[0]), 4)  # log 0.5
        -0.6931
    """
    check_number("beta", beta)
    sums = ops.cast(attention_sums, "float32")
    terms = ops.log(ops.clip(sums, SMALLEST_COVERAGE, 1.0))
    return beta * ops.sum(ops.where(ops.cast(source_mask, "bool"), terms, 0.0), axis=-1)


class BeamSearch(GuidedSearch):
    """Keeps the `n` most likely running hypotheses, and the `n` best finished ones.

    A hypothesis that ended is never extended, and competes by its score:

        log-probability / ((5 + length) / 6) ** length_penalty + coverage

    A source is done when no running hypothesis can overtake the finished ones that
    are wanted, or as soon as `n` have ended, as in fairseq, and in CTranslate2 with a length
    penalty: the first alone would then go on for long with little to gain. Hypotheses that reach the
    maximal length without an end token fill the places that finished ones leave free.

    Args:
        beam_size: hypotheses that are kept for each source, `n`.
        num_hypotheses: how many of them are wanted; all if None. The fewer, the earlier the search
            may stop.
        length_penalty: the exponent of the GNMT length penalty; 0 for none.
        coverage_penalty: how much source positions count that were not attended to; see
            `coverage_penalty`. Only for models with an encoder.
        exhaustive: whether the search goes on until no running hypothesis can win, however many
            have ended.
        constraints: what may not be generated; None for no rules. A repetition penalty changes the
            scores here.
        special_ids: which tokens are special.

    Raises:
        TypeError: a value of another type.
        ValueError: a size not above zero, more hypotheses than the beam has, or a negative penalty.
    """

    axes: ClassVar[dict[str, str]] = {
        "last_ids": "bn",
        "running_ids": "bnt",
        "running_log_probabilities": "bn",
        "finished_ids": "bnt",
        "finished_scores": "bn",
    }

    def __init__(
        self,
        beam_size: int = 4,
        *,
        num_hypotheses: int | None = None,
        length_penalty: float = 1.0,
        coverage_penalty: float = 0.0,
        exhaustive: bool = False,
        constraints: Constraints | None = None,
        special_ids: SpecialIds | None = None,
    ) -> None:
        super().__init__(length_penalty=length_penalty, constraints=constraints, special_ids=special_ids)
        check_positive(beam_size=beam_size)
        num_hypotheses = beam_size if num_hypotheses is None else num_hypotheses
        check_positive(num_hypotheses=num_hypotheses)
        if num_hypotheses > beam_size:
            raise ValueError(
                "`num_hypotheses` must be at most `beam_size`. "
                f"Received: num_hypotheses={num_hypotheses}, beam_size={beam_size}."
            )
        self.beam_size = beam_size
        self.num_hypotheses = num_hypotheses
        self.coverage_penalty = coverage_penalty
        self.exhaustive = exhaustive

    @property
    def coverage_penalty(self) -> float:
        """How much it costs to leave a part of the source without attention."""
        return self._coverage_penalty

    @coverage_penalty.setter
    def coverage_penalty(self, value: float) -> None:
        """Charge another price, and sum up the attention only if there is one."""
        check_number("coverage_penalty", value)
        self._coverage_penalty = value
        self.tracks_attention = value > 0

    def initialize(self, cache: Cache, request: Request, length: Tensor | int) -> BeamState:
        """Make the state: one running hypothesis for each source, none finished; see `GuidedSearch`."""
        sizes = request.batch_size, self.beam_size
        padding = ops.full((*sizes, length), self.special_ids.pad, dtype="int32")
        nothing = ops.full(sizes, LOWEST_SCORE, dtype="float32")
        # All hypotheses start alike, so only the first may count.
        certain = ops.zeros((request.batch_size, 1), "float32")
        return BeamState(
            position=ops.convert_to_tensor(0, "int32"),
            last_ids=self._first_ids(request),
            running_ids=padding,
            running_log_probabilities=ops.concatenate([certain, nothing[:, 1:]], axis=1),
            finished_ids=padding,
            finished_scores=nothing,
            limits=self._limits(request),
            cache=cache,
        )

    def is_running(self, state: BeamState, max_length: int) -> Tensor:
        """Say for which sources some running hypothesis may still win a place.

        Its score can at best become its log-probability now, divided by the
        penalty of the longest hypothesis, with everything covered.

        Args:
            state: after a step.
            max_length: the most tokens of a hypothesis.

        Returns:
            Boolean `(b,)`.
        """
        longest = max_length if is_absent(state.limits.longest) else state.limits.longest
        best_running = state.running_log_probabilities[:, 0] / length_penalty(longest, self.length_penalty)
        overtakes = best_running > state.finished_scores[:, self.num_hypotheses - 1]
        can_win = ops.logical_and(overtakes, is_possible(best_running))
        if self.exhaustive:
            return can_win
        return ops.logical_and(can_win, ops.logical_not(is_possible(state.finished_scores[:, -1])))

    def advance(self, state: BeamState, step: Step, max_length: int) -> BeamState:
        """Extend every running hypothesis by one token.

        Args:
            state: before the token.
            step: the model.
            max_length: the most tokens of a hypothesis.

        Returns:
            The state after it.
        """
        is_running = self.is_running(state, max_length)
        found, cache = self._extend(state, step, max_length)
        ids = take_each(state.running_ids, found.beams)  # (b, 2n, t)
        is_position = ops.equal(ops.arange(ops.shape(ids)[2], dtype="int32"), state.position)
        ids = ops.where(is_position, found.token_ids[..., None], ids)
        ended = ops.equal(found.token_ids, self.special_ids.end)
        # A source that is done stays as it is, however long its neighbors go on.
        may_finish = ops.logical_and(ended, is_running[:, None])
        finished_scores, finished_ids = self._finish(state, found, may_finish, ids, cache)
        running, order = top_k(ops.where(ended, LOWEST_SCORE, found.log_probabilities), self.beam_size)
        return state._replace(
            position=state.position + 1,
            last_ids=take_each(found.token_ids, order),
            running_ids=take_each(ids, order),
            running_log_probabilities=running,
            finished_ids=finished_ids,
            finished_scores=finished_scores,
            cache=cache.reorder(flat_rows(take_each(found.beams, order), self.beam_size)),
        )

    def finalize(self, state: BeamState, max_length: int) -> SearchResult:
        """Rank the hypotheses, those that ended before those that did not.

        Args:
            state: after the last token.
            max_length: the length of the result, `T`.

        Returns:
            `num_hypotheses` hypotheses for each source, best first; where there are fewer
            sequences, the rest is padding and scores `LOWEST_SCORE`.
        """
        running = state.running_log_probabilities
        running_scores = self._score(running, state.position, state.cache)
        running_scores = ops.where(is_possible(running), running_scores, LOWEST_SCORE)
        # Places that are still free come last: below any score, above nothing.
        is_free = ops.logical_not(is_possible(state.finished_scores))
        num_free = ops.sum(ops.cast(is_free, "int32"), axis=1, keepdims=True)  # (b, 1)
        fills = ops.arange(self.beam_size)[None, :] - (self.beam_size - num_free)
        source = ops.maximum(fills, 0)  # which running hypothesis fills a free place
        filled = take_each(running_scores, source)
        scores = ops.where(is_free, filled, state.finished_scores)[:, : self.num_hypotheses]
        ids = ops.where(is_free[..., None], take_each(state.running_ids, source), state.finished_ids)
        # There may be fewer sequences than places.
        ids = ops.where(is_possible(scores)[..., None], ids[:, : self.num_hypotheses], self.special_ids.pad)
        return SearchResult(pad_tokens(ids, self.special_ids.pad, max_length), scores)

    def _extend(self, state: BeamState, step: Step, max_length: int) -> tuple[Candidates, Cache]:
        """Find the most likely extensions of each source's hypotheses."""
        logits, cache = step(ops.reshape(state.last_ids, (-1,)), state.position, state.cache)
        num_tokens = min(2 * self.beam_size, logits.shape[-1])
        if self._is_free(state.limits):
            scores, ids = best_tokens(logits, num_tokens, self.special_ids)
        else:
            _, allowed = self._allowed(logits, state.running_ids, state.position, state.limits, max_length)
            scores, ids = largest(allowed, num_tokens)
        scores = ops.reshape(scores, (-1, self.beam_size, num_tokens))
        totals = state.running_log_probabilities[:, :, None] + scores
        totals = ops.reshape(totals, (-1, self.beam_size * num_tokens))
        ids = ops.reshape(ids, (-1, self.beam_size * num_tokens))
        best, places = top_k(totals, min(2 * self.beam_size, self.beam_size * num_tokens))
        return Candidates(best, places // num_tokens, take_each(ids, places)), cache

    def _finish(
        self, state: BeamState, found: Candidates, may_finish: Tensor, ids: Tensor, cache: Cache
    ) -> tuple[Tensor, Tensor]:
        """Let the candidates that ended compete with what has: scores `(b, n)` and tokens `(b, n, t)`."""
        # As everywhere, only the `n` best may end: so a beam of one is greedy search.
        is_best = ops.arange(found.beams.shape[1]) < self.beam_size
        is_best = ops.logical_and(is_best, is_possible(found.log_probabilities))
        scores = self._score(found.log_probabilities, state.position + 1, cache, found.beams)
        scores = ops.where(ops.logical_and(may_finish, is_best), scores, LOWEST_SCORE)
        scores, order = top_k(ops.concatenate([state.finished_scores, scores], axis=1), self.beam_size)
        return scores, take_each(ops.concatenate([state.finished_ids, ids], axis=1), order)

    def _score(
        self, log_probabilities: Tensor, length: Tensor, cache: Any, beams: Tensor | None = None
    ) -> Tensor:
        """Score hypotheses `(b, m)` of one length, which continue `beams`, or themselves."""
        scores = log_probabilities / length_penalty(length, self.length_penalty)
        if not self.tracks_attention:
            return scores
        sums = cache.attention_sums if beams is None else take_each(cache.attention_sums, beams)
        num_sums, source_length = ops.shape(sums)[1:]
        mask = cache.encoder_padding_mask
        mask = ops.ones_like(sums[:, 0]) if is_absent(mask) else mask
        mask = ops.repeat(mask, num_sums, axis=0)
        covered = coverage_penalty(ops.reshape(sums, (-1, source_length)), mask, self.coverage_penalty)
        return scores + ops.reshape(covered, (-1, num_sums))
