"""Drawing the next token by chance: temperature, top-k, top-p."""

import abc
import dataclasses
from typing import ClassVar, NamedTuple

from keras import ops

from keras_transformer.arguments import check_positive
from keras_transformer.backend import draw_uniforms, first_largest, top_k
from keras_transformer.decoding.constraints import FORCED_LOG_PROBABILITY, Constraints, is_possible
from keras_transformer.decoding.log_probabilities import LOWEST_SCORE, best_tokens, length_penalty
from keras_transformer.decoding.search import (
    Cache,
    GuidedSearch,
    Limits,
    Request,
    SearchResult,
    Step,
    pad_tokens,
)
from keras_transformer.decoding.validation import check_number
from keras_transformer.types import SpecialIds, Tensor


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


class GreedySearch(RowSearch):
    """Takes the most likely token at each step, until every row has ended.

    Args:
        length_penalty: of the score that is reported; the search ignores it.
        constraints: what may not be generated; None for no rules.
        special_ids: which tokens are special.

    Raises:
        ValueError: a negative length penalty.
    """

    def __init__(
        self,
        *,
        length_penalty: float = 0.0,
        constraints: Constraints | None = None,
        special_ids: SpecialIds | None = None,
    ) -> None:
        super().__init__(length_penalty=length_penalty, constraints=constraints, special_ids=special_ids)

    def _choose(self, logits: Tensor, state: RowState, max_length: int) -> tuple[Tensor, Tensor]:
        if self._is_free(state.limits):
            gained, chosen = best_tokens(logits, 1, self.special_ids)
        else:
            scores, allowed = self._allowed(logits, state.token_ids, state.position, state.limits, max_length)
            chosen = first_largest(allowed)
            gained = ops.take_along_axis(scores, chosen, axis=-1)
        return chosen[:, 0], gained[:, 0]


@dataclasses.dataclass(frozen=True)
class Sampler:
    """Draws tokens from the model's distribution, reshaped by up to three options.

    They are applied in this order: first the temperature, then `top_k`, then `top_p`, which sees the
    probabilities of the `k` tokens that are left, as they share the whole.

    Args:
        temperature: what log-probabilities are divided by: below 1 for likelier tokens, above 1 for
            more variety. Greedy search is the limit 0.
        top_k: only so many of the most likely tokens; None for all.
        top_p: only the fewest most likely tokens that are at least as likely together, at least one;
            "nucleus sampling", Holtzman et al. 2020. None for all.

    Raises:
        TypeError: a value that is no number.
        ValueError: a temperature or `top_k` not above zero, a `top_p` outside (0, 1].
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        if not self.temperature:
            raise ValueError(
                "`temperature` must be above zero; `GreedySearch` always takes the likeliest token. "
                f"Received: temperature={self.temperature}."
            )
        check_number("temperature", self.temperature)
        if self.top_k is not None:
            check_positive(top_k=self.top_k)
        if self.top_p is not None:
            check_number("top_p", self.top_p, above_zero=True)
            if self.top_p > 1:
                raise ValueError(f"`top_p` must be at most 1. Received: top_p={self.top_p}.")

    def choose(self, log_probabilities: Tensor, uniform: Tensor) -> Tensor:
        """Draw one token for each row, by inverting the cumulated distribution.

        The chance comes from outside, so the same numbers give the same tokens in every kind of loop.
        What may not be generated is never drawn, unless a row has nothing else.

        Args:
            log_probabilities: `(r, v)`, `LOWEST_SCORE` for what may not be generated.
            uniform: float `(r,)`, at least 0 and below 1.

        Returns:
            int32 `(r,)`.
        """
        scores = ops.maximum(ops.cast(log_probabilities, "float32"), LOWEST_SCORE)
        if self.top_k is None and self.top_p in (None, 1):
            return _draw(self._weights(scores), uniform)
        size = min(self.top_k or scores.shape[-1], scores.shape[-1])
        scores, token_ids = top_k(scores, size)  # (r, k), the most likely first
        weights = self._weights(scores)
        if self.top_p is not None:
            weights = _nucleus(weights, self.top_p)
        place = _draw(weights, uniform)
        return ops.take_along_axis(token_ids, place[:, None], axis=1)[:, 0]

    def _weights(self, scores: Tensor) -> Tensor:
        """Give what probabilities are proportional to, 1 for the most likely token, `(r, m)`."""
        # Differences first: divided by a small temperature, the scores themselves would overflow.
        below_best = scores - ops.max(scores, axis=-1, keepdims=True)
        return ops.where(is_possible(scores), ops.exp(below_best / self.temperature), 0.0)


def _nucleus(weights: Tensor, top_p: float) -> Tensor:
    """Keep the fewest weights `(r, m)`, largest first, that sum up to `top_p` of the whole."""
    cumulated = ops.cumsum(weights, axis=-1)
    before = cumulated - weights  # what is more likely: 0 for the first, so that one always stays
    return ops.where(before < top_p * cumulated[:, -1:], weights, 0.0)


def _draw(weights: Tensor, uniform: Tensor) -> Tensor:
    """Find the first place where the cumulated weights `(r, m)` pass the uniform numbers `(r,)`."""
    size = weights.shape[-1]
    cumulated = ops.cumsum(weights, axis=-1)
    passed = cumulated > uniform[:, None] * cumulated[:, -1:]
    # A sum computed in parallel need not grow where a weight is zero, so such places are left out.
    passed = ops.logical_and(passed, weights > 0)
    first = ops.min(ops.where(passed, ops.arange(size), size), axis=-1)
    # Close to 1 the product may round up to the whole sum, which nothing passes.
    best = ops.cast(ops.argmax(weights, axis=-1), "int32")
    return ops.where(first < size, ops.cast(first, "int32"), best)


class SampleSearch(RowSearch):
    """Draws answers, `num_samples` for each source.

    Each token is drawn from the model's distribution after the constraints and the sampler have
    reshaped it. The score is the model's own all the same: the log-probability that it gives to the
    answer, at temperature 1 and over the whole vocabulary, divided by the length penalty. So scores
    of different options, and of other searches, can be compared.

    One seed gives the same answers eagerly and compiled, to a source of the same number: its row in the
    batch, or for a `Translator` its place among all texts of a call, however many are decoded together.

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
        super().__init__(length_penalty=length_penalty, constraints=constraints, special_ids=special_ids)
        Sampler(temperature, top_k, top_p)  # checks them
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise TypeError(f"`seed` must be an integer or None. Received: seed={seed!r}.")
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self.num_samples = num_samples
        self.seed = seed

    @property
    def num_samples(self) -> int:
        """Hypotheses for each source, `n`."""
        return self.beam_size

    @num_samples.setter
    def num_samples(self, value: int) -> None:
        """Ask for another number of them."""
        check_positive(num_samples=value)
        self.beam_size = self.num_hypotheses = value

    def _chance(self, request: Request) -> Tensor:
        seed = request.seed if self.seed is None else self.seed
        numbers = request.source_numbers
        if numbers is None:
            numbers = ops.arange(request.batch_size, dtype="int32")
        samples = ops.arange(self.beam_size, dtype="int32")
        rows = ops.reshape(ops.cast(numbers, "int32")[:, None] * self.beam_size + samples, (-1,))
        uniforms = ops.transpose(draw_uniforms(seed, request.max_length, rows))  # (b * n, T)
        return ops.reshape(uniforms, (-1, self.beam_size, request.max_length))

    def _choose(self, logits: Tensor, state: RowState, max_length: int) -> tuple[Tensor, Tensor]:
        scores, allowed = self._allowed(logits, state.token_ids, state.position, state.limits, max_length)
        uniform = ops.reshape(ops.take(state.chance, state.position, axis=2), (-1,))
        chosen = Sampler(self.temperature, self.top_k, self.top_p).choose(allowed, uniform)
        # Not what the sampler saw: the score is that of the model.
        return chosen, ops.take_along_axis(scores, chosen[:, None], axis=1)[:, 0]
