"""Sampling: answers drawn by chance, as likely as the model finds them."""

from typing import NamedTuple

from keras import ops

from keras_transformer.decoding.constraints import Constraints
from keras_transformer.decoding.contract import Cache, SearchResult, SpecialIds, Step
from keras_transformer.decoding.loop import run_search
from keras_transformer.decoding.sampling import Sampler
from keras_transformer.decoding.scores import (
    check_length_penalty,
    length_penalty,
    next_token_log_probabilities,
)
from keras_transformer.decoding.token_rules import FORCED_LOG_PROBABILITY
from keras_transformer.decoding.uniforms import draw_uniforms
from keras_transformer.layers.validation import check_positive
from keras_transformer.types import Tensor


class SampleState(NamedTuple):
    """What changes from step to step, and what it depends on; `r = b * n` hypotheses."""

    position: Tensor
    """An integer scalar: how many tokens were generated."""
    token_ids: Tensor
    """`(T + 1, r)`, the start token first; time first, to be written in place."""
    log_probabilities: Tensor
    """float32 `(r,)`, of the hypothesis so far."""
    lengths: Tensor
    """int32 `(r,)`, tokens so far, the end token included."""
    ended: Tensor
    """bool `(r,)`."""
    uniforms: Tensor
    """float32 `(T, r)`, the chance of each step."""
    shortest: Tensor
    """int32 `(r,)`; `()` where no bound depends on the source."""
    longest: Tensor
    """int32 `(r,)`; `()` likewise."""
    cache: Cache
    """The model's."""


class SampleSearch:
    """Draws answers, `num_samples` for each source.

    Each token is drawn from the model's distribution after the constraints and the sampler have
    reshaped it. The score is the model's own all the same: the log-probability that it gives to the
    answer, at temperature 1 and over the whole vocabulary, divided by the length penalty. So scores
    of different options, and of other searches, can be compared.

    One seed gives the same answers eagerly and compiled, and for a source in the same row of a batch.

    Args:
        temperature: of the distribution; see `Sampler`.
        top_k: only so many of the most likely tokens; see `Sampler`.
        top_p: only the most likely tokens of this probability; see `Sampler`.
        num_samples: hypotheses for each source, `n`; the best score comes first.
        seed: of the chance; None for other answers at each call, see `draw_uniforms`.
        length_penalty: of the scores.
        constraints: what may not be generated; None for no rules.
        special_ids: which tokens are special.

    Raises:
        TypeError: an option that is no number.
        ValueError: an option out of its range.

    Example:
        >>> SampleSearch(temperature=0.8, top_p=0.95, num_samples=3, seed=7).beam_size
        3
    """

    def __init__(
        self,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        *,
        num_samples: int = 1,
        seed: int | None = None,
        length_penalty: float = 0.0,
        constraints: Constraints | None = None,
        special_ids: SpecialIds | None = None,
    ) -> None:
        self.sampler = Sampler(temperature, top_k, top_p)
        check_positive(num_samples=num_samples)
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise TypeError(f"`seed` must be an integer or None. Received: seed={seed!r}.")
        check_length_penalty(length_penalty)
        self.num_samples = self.beam_size = num_samples
        self.seed = seed
        self.length_penalty = length_penalty
        self.constraints = constraints or Constraints()
        self.special_ids = special_ids or SpecialIds()

    def __call__(
        self,
        step: Step,
        cache: Cache,
        batch_size: Tensor | int,
        max_length: int,
        source_lengths: Tensor | None = None,
    ) -> SearchResult:
        """Search; see `Search`, and `initialize` for the lengths."""
        state = self.initialize(cache, batch_size, max_length, source_lengths)
        return self.finalize(run_search(self, state, step, max_length))

    def initialize(
        self,
        cache: Cache,
        batch_size: Tensor | int,
        max_length: int,
        source_lengths: Tensor | None = None,
    ) -> SampleState:
        """Make the state before the first token.

        Args:
            cache: the model's.
            batch_size: the number of sources, `b`.
            max_length: the most tokens, `T`.
            source_lengths: integers `(b,)`, for constraints that depend on them; see `bounds`.

        Returns:
            The state.
        """
        rows = batch_size * self.num_samples
        start = ops.full((1, rows), self.special_ids.start, dtype="int32")
        padding = ops.full((max_length, rows), self.special_ids.pad, dtype="int32")
        shortest, longest = self.constraints.bounds(source_lengths, max_length, self.num_samples)
        return SampleState(
            position=ops.convert_to_tensor(0, "int32"),
            token_ids=ops.concatenate([start, padding], axis=0),
            log_probabilities=ops.zeros((rows,), "float32"),
            lengths=ops.zeros((rows,), "int32"),
            ended=ops.zeros((rows,), "bool"),
            uniforms=draw_uniforms(self.seed, max_length, rows),
            shortest=shortest,
            longest=longest,
            cache=cache,
        )

    def is_running(self, state: SampleState, max_length: int) -> Tensor:
        """Say whether some row has not ended.

        Args:
            state: after a step.
            max_length: the most tokens of a hypothesis.

        Returns:
            A boolean scalar.
        """
        return ops.logical_and(state.position < max_length, ops.logical_not(ops.all(state.ended)))

    def advance(self, state: SampleState, step: Step) -> SampleState:
        """Draw one token of every row.

        Args:
            state: before the token.
            step: the model.

        Returns:
            The state after it.
        """
        logits, cache = step(ops.take(state.token_ids, state.position, axis=0), state.position, state.cache)
        log_probabilities = next_token_log_probabilities(logits, self.special_ids)
        uniform = ops.take(state.uniforms, state.position, axis=0)
        token_ids = self.sampler.choose(self._restrict(log_probabilities, state), uniform)
        # Not what the sampler saw: the score is that of the model.
        gained = ops.take_along_axis(log_probabilities, token_ids[:, None], axis=1)[:, 0]
        gained = ops.where(state.ended, 0.0, ops.maximum(gained, FORCED_LOG_PROBABILITY))
        token_ids = ops.where(state.ended, self.special_ids.pad, token_ids)
        written = ops.scatter_update(
            state.token_ids, ops.reshape(state.position + 1, (1, 1)), token_ids[None]
        )
        return state._replace(
            position=state.position + 1,
            token_ids=written,
            log_probabilities=state.log_probabilities + gained,
            lengths=state.lengths + ops.cast(ops.logical_not(state.ended), "int32"),
            ended=ops.logical_or(state.ended, ops.equal(token_ids, self.special_ids.end)),
            cache=cache,
        )

    def finalize(self, state: SampleState) -> SearchResult:
        """Order the hypotheses of each source, the best score first.

        Args:
            state: after the last token.

        Returns:
            `num_samples` hypotheses for each source.
        """
        scores = state.log_probabilities / length_penalty(state.lengths, self.length_penalty)
        token_ids = ops.transpose(state.token_ids[1:])  # (r, T)
        token_ids = ops.reshape(token_ids, (-1, self.num_samples, token_ids.shape[-1]))
        scores, order = ops.top_k(ops.reshape(scores, (-1, self.num_samples)), self.num_samples)
        token_ids = ops.take_along_axis(token_ids, ops.cast(order, "int32")[..., None], axis=1)
        return SearchResult(token_ids, scores)

    def _restrict(self, log_probabilities: Tensor, state: SampleState) -> Tensor:
        """Apply the constraints."""
        history = ops.transpose(state.token_ids[1:]) if self.constraints.needs_history else None  # (r, T)
        return self.constraints.apply(
            log_probabilities,
            history,
            state.position,
            state.shortest,
            state.longest,
            max_length=state.uniforms.shape[0],
            special_ids=self.special_ids,
        )
