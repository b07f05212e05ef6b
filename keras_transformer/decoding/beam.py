"""Beam search: keep the most likely hypotheses at each step."""

import dataclasses
from typing import ClassVar, Literal, NamedTuple

from keras import ops

from keras_transformer._arguments import check_choice, check_flags, check_positive
from keras_transformer._backend.indexing import dynamic_shape, gather, largest
from keras_transformer.decoding.constraints import _is_absent, _Limits
from keras_transformer.decoding.log_probabilities import _is_possible
from keras_transformer.decoding.search import Search, SearchResult, Step, _Cache, _Request
from keras_transformer.types import LOWEST_SCORE, Tensor


class _BeamState(NamedTuple):
    """State of beam search."""

    position: Tensor  # an integer scalar: number of generated tokens
    last_ids: Tensor  # int32 `(b, n)`: the previous token; first the start token
    running_ids: Tensor  # int32 `(b, n, t)`: the tokens so far, then padding
    running_log_probabilities: Tensor  # float32 `(b, n)`, best first
    finished_ids: Tensor  # int32 `(b, n, t)`: hypotheses with an end token
    finished_scores: Tensor  # float32 `(b, n)`, best first, `LOWEST_SCORE` for an empty slot
    limits: _Limits  # limits of each source
    cache: _Cache  # the model's cache, for `b * n` hypotheses


class _Candidates(NamedTuple):
    """The `2n` most likely extensions for each source: enough even if `n` of them are end tokens."""

    log_probabilities: Tensor  # float32 `(b, 2n)`, best first
    beams: Tensor  # int32 `(b, 2n)`: index of the extended hypothesis
    token_ids: Tensor  # int32 `(b, 2n)`: the next token


@dataclasses.dataclass(frozen=True)
class BeamSearch(Search):
    """Beam search, which keeps `n = beam_size` unfinished and `n` finished hypotheses for each source.

    The unfinished ones are those with the highest log-probability, the finished ones those with the highest
    score. The score is, with the default `length_normalization`,

        log-probability / ((5 + length) / 6) ** length_penalty

    By default, the search of a source ends once `n` hypotheses are finished and no unfinished one, scored at
    its current length, is better than the worst finished one. Hypotheses that reach the maximum length
    without an end token rank after all finished ones.

    `BeamSearch(4, length_normalization="length", cut_off_competes=True)` corresponds to
    `generate(num_beams=4)` in transformers.

    Raises:
        TypeError: If a value has the wrong type.
        ValueError: If a size is not positive, `num_hypotheses` exceeds `beam_size`, or a penalty is negative.

    Example:
        >>> dataclasses.replace(BeamSearch(4), beam_size=8) == BeamSearch(8)
        True
    """

    beam_size: int = 4
    """Number of hypotheses that are kept for each source, `n`."""
    _: dataclasses.KW_ONLY
    num_hypotheses: int | None = None
    """Number of hypotheses to return. Defaults to `beam_size`. With fewer, the search may stop earlier,
    unless `early_stopping` is False."""
    length_penalty: float = 1.0
    """Exponent of the length penalty, by which scores are divided. 0 disables it."""
    early_stopping: bool | Literal["never"] = False
    """When to stop a source, with the values of transformers. False: when it has `n` finished hypotheses and
    no unfinished one scores better at its current length; one that would score better later is lost. True: as
    soon as it has `n` finished hypotheses, as in fairseq, and in CTranslate2 with a length penalty; this is
    faster, but `n` bad short hypotheses may finish before a good one. "never": when no unfinished
    hypothesis can score better at any length."""
    cut_off_competes: bool = False
    """Whether hypotheses cut off at the maximum length compete with the finished ones, as in transformers and
    CTranslate2. If False, they rank after all finished ones."""

    kind: ClassVar[str] = "beam"
    token_fields: ClassVar[tuple[str, ...]] = ("running_ids", "finished_ids")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(beam_size=self.beam_size, num_hypotheses=self.num_outputs)
        check_choice((True, False, "never"), early_stopping=self.early_stopping)
        check_flags(cut_off_competes=self.cut_off_competes)
        if self.num_outputs > self.beam_size:
            raise ValueError(
                "`num_hypotheses` must be at most `beam_size`. "
                f"Received: num_hypotheses={self.num_hypotheses}, beam_size={self.beam_size}."
            )

    @property
    def num_outputs(self) -> int:
        """Number of hypotheses in a result for each source."""
        return self.beam_size if self.num_hypotheses is None else self.num_hypotheses

    def initialize(self, cache: _Cache, request: _Request, length: Tensor | int) -> _BeamState:
        """Return the initial state: one running hypothesis for each source, none finished."""
        sizes = request.batch_size, self.beam_size
        padding = ops.full((*sizes, length), self._ids.pad, dtype="int32")
        nothing = ops.full(sizes, LOWEST_SCORE, dtype="float32")
        # All hypotheses start out equal, so only the first may count.
        certain = ops.zeros((request.batch_size, 1), "float32")
        return _BeamState(
            position=ops.convert_to_tensor(0, "int32"),
            last_ids=self._first_ids(request),
            running_ids=padding,
            running_log_probabilities=ops.concatenate([certain, nothing[:, 1:]], axis=1),
            finished_ids=padding,
            finished_scores=nothing,
            limits=self._source_limits(request),
            cache=cache,
        )

    def is_running(self, state: _BeamState, max_length: int) -> Tensor:
        """Return for which sources an unfinished hypothesis can still win, boolean `(b,)`.

        The best score that it can reach is estimated as its current log-probability divided by the length
        penalty, without a coverage penalty. The length is the maximum length, or the current length if
        `early_stopping` is False.
        """
        # With a length penalty a longer hypothesis may still win, so "never", which uses only the bound at
        # the maximum length, nearly always runs to that length. For numbers in digits, "never" takes 3.0
        # times as long as True, False 1.2 times. True is not the default: for short outputs, four bad
        # hypotheses end before a good one. For scanned digits in letters, True found 83.9 %, "never" 92.2 %.
        limits, last = state.limits, self.num_outputs - 1
        length = limits.cut_off_length(max_length) if _is_absent(limits.longest) else limits.longest
        if not self.early_stopping:
            # Not an upper bound, so the returned hypotheses may change as long as any of the `n` does.
            length, last = ops.maximum(state.position, 1), self.beam_size - 1
        running = state.running_log_probabilities[:, 0]
        bound = self.score(running, length, limits.length_penalties)
        overtakes = bound > state.finished_scores[:, last]
        can_win = ops.logical_and(overtakes, _is_possible(running))
        if self.early_stopping in (False, "never"):
            return can_win
        return ops.logical_and(can_win, ops.logical_not(_is_possible(state.finished_scores[:, -1])))

    def advance(self, state: _BeamState, step: Step, max_length: int) -> _BeamState:
        """Extend every unfinished hypothesis by one token."""
        is_running = self.is_running(state, max_length)
        found, cache = self._extend(state, step, max_length)
        ids = gather(state.running_ids, found.beams, batch_dims=1)  # (b, 2n, t)
        is_position = ops.equal(ops.arange(dynamic_shape(ids)[2], dtype="int32"), state.position)
        ids = ops.where(is_position, found.token_ids[..., None], ids)
        ended = ops.equal(found.token_ids, self._ids.end)
        # A finished source does not change while others in the batch go on.
        may_finish = ops.logical_and(ended, is_running[:, None])
        finished_scores, finished_ids = self._merge_finished(state, found, may_finish, ids)
        running, order = largest(ops.where(ended, LOWEST_SCORE, found.log_probabilities), self.beam_size)
        # It also stays finished: as the length grows, the bound could rise again.
        running = ops.where(is_running[:, None], running, LOWEST_SCORE)
        # The cache indexes the hypotheses of all sources: (b, n) -> (b * n,)
        first = ops.arange(dynamic_shape(order)[0], dtype="int32")[:, None] * self.beam_size
        rows = ops.reshape(gather(found.beams, order, batch_dims=1) + first, (-1,))
        return state._replace(
            position=state.position + 1,
            last_ids=gather(found.token_ids, order, batch_dims=1),
            running_ids=gather(ids, order, batch_dims=1),
            running_log_probabilities=running,
            finished_ids=finished_ids,
            finished_scores=finished_scores,
            # Keys and values are not moved: the cache records which hypothesis wrote them.
            cache=cache.reorder(rows),
        )

    def finalize(self, state: _BeamState, max_length: int) -> SearchResult:
        """Rank the hypotheses: finished ones first, then those that were cut off.

        With `cut_off_competes`, both are ranked together by score. If there are fewer than `num_outputs`, the
        rest is padding with a score of `LOWEST_SCORE`.
        """
        running = state.running_log_probabilities
        running_scores = self.score(running, state.position, state.limits.length_penalties)
        running_scores = ops.where(_is_possible(running), running_scores, LOWEST_SCORE)
        if self.cut_off_competes:
            state, running_scores = self._merge_cut_off(state, running_scores, max_length)
        # Unfinished hypotheses fill the ranks that the finished ones leave free.
        is_free = ops.logical_not(_is_possible(state.finished_scores))
        # (b, n) -> (b, 1)
        num_free = ops.sum(ops.cast(is_free, "int32"), axis=1, keepdims=True)
        fills = ops.arange(self.beam_size, dtype="int32")[None, :] - (self.beam_size - num_free)
        source = ops.maximum(fills, 0)  # index of the unfinished hypothesis for a free rank
        filled = gather(running_scores, source, batch_dims=1)
        scores = ops.where(is_free, filled, state.finished_scores)[:, : self.num_outputs]
        ids = ops.where(
            is_free[..., None], gather(state.running_ids, source, batch_dims=1), state.finished_ids
        )
        # There may be fewer hypotheses than ranks.
        ids = ops.where(_is_possible(scores)[..., None], ids[:, : self.num_outputs], self._ids.pad)
        return SearchResult(self._pad_hypotheses(ids, max_length), scores)

    def _extend(self, state: _BeamState, step: Step, max_length: int) -> tuple[_Candidates, _Cache]:
        """Return the most likely extensions of each source's hypotheses."""
        logits, cache = step(ops.reshape(state.last_ids, (-1,)), state.position, state.cache)
        # At most `2n` tokens of one hypothesis can be among the `2n` best extensions of the source.
        num_tokens = min(2 * self.beam_size, logits.shape[-1])
        _, allowed = self._allowed(logits, state.running_ids, state.position, state.limits, max_length)
        scores, ids = largest(allowed, num_tokens)
        scores = ops.reshape(scores, (-1, self.beam_size, num_tokens))
        totals = state.running_log_probabilities[:, :, None] + scores
        totals = ops.reshape(totals, (-1, self.beam_size * num_tokens))
        ids = ops.reshape(ids, (-1, self.beam_size * num_tokens))
        best, found = largest(totals, min(2 * self.beam_size, self.beam_size * num_tokens))
        return _Candidates(best, found // num_tokens, gather(ids, found, batch_dims=1)), cache

    def _merge_finished(
        self, state: _BeamState, found: _Candidates, may_finish: Tensor, ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Merge newly finished hypotheses with the finished ones: scores `(b, n)`, tokens `(b, n, t)`."""
        # Only the `n` best candidates may end, so that a beam of size 1 is greedy search.
        is_best = ops.arange(found.beams.shape[1], dtype="int32") < self.beam_size
        is_best = ops.logical_and(is_best, _is_possible(found.log_probabilities))
        penalties = state.limits.length_penalties
        scores = self.score(found.log_probabilities, state.position + 1, penalties)
        scores = ops.where(ops.logical_and(may_finish, is_best), scores, LOWEST_SCORE)
        scores, order = largest(ops.concatenate([state.finished_scores, scores], axis=1), self.beam_size)
        return scores, gather(ops.concatenate([state.finished_ids, ids], axis=1), order, batch_dims=1)

    def _merge_cut_off(
        self, state: _BeamState, running_scores: Tensor, max_length: int
    ) -> tuple[_BeamState, Tensor]:
        """Merge hypotheses of the maximum length with the finished ones."""
        most = ops.convert_to_tensor(state.limits.cut_off_length(max_length), "int32")
        is_cut_off = ops.reshape(state.position >= most, (-1, 1))
        scores = ops.where(is_cut_off, running_scores, LOWEST_SCORE)
        scores, order = largest(ops.concatenate([state.finished_scores, scores], axis=1), self.beam_size)
        ids = ops.concatenate([state.finished_ids, state.running_ids], axis=1)
        state = state._replace(finished_ids=gather(ids, order, batch_dims=1), finished_scores=scores)
        return state, ops.where(is_cut_off, LOWEST_SCORE, running_scores)
