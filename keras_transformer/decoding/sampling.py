"""Greedy search and sampling: searches whose hypotheses do not compete with each other."""

import abc
import dataclasses
from typing import ClassVar, NamedTuple

from keras import ops

from keras_transformer._arguments import check_number, check_positive
from keras_transformer._backend.indexing import dynamic_shape, largest
from keras_transformer._backend.random import draw_uniforms
from keras_transformer.decoding.constraints import _Limits
from keras_transformer.decoding.log_probabilities import (
    FORCED_LOG_PROBABILITY,
    _is_possible,
)
from keras_transformer.decoding.search import Search, SearchResult, Step, _Cache, _Request
from keras_transformer.types import LOWEST_SCORE, Tensor

# A lower temperature is 0 in float32, by which nothing can be divided.
_LEAST_TEMPERATURE = 1e-30


class _IndependentState(NamedTuple):
    """State of a search with independent hypotheses."""

    position: Tensor  # an integer scalar: number of generated tokens
    last_ids: Tensor  # int32 `(b, n)`: the previous token; first the start token
    token_ids: Tensor  # int32 `(b, n, t)`: the tokens so far, then padding
    log_probabilities: Tensor  # float32 `(b, n)`: sum over the tokens so far
    lengths: Tensor  # int32 `(b, n)`: number of tokens so far, including the end token
    ended: Tensor  # bool `(b, n)`
    uniforms: Tensor  # float32 `(b, n, T)`: a random number for each step; `(b, n, 0)` for greedy search
    limits: _Limits  # limits of each source
    cache: _Cache  # the model's cache


@dataclasses.dataclass(frozen=True, kw_only=True)
class _IndependentSearch(Search):
    """Base class of `GreedySearch` and `SampleSearch`."""

    token_fields: ClassVar[tuple[str, ...]] = ("token_ids",)

    def initialize(self, cache: _Cache, request: _Request, length: Tensor | int) -> _IndependentState:
        """Return the state before the first token."""
        sizes = request.batch_size, self.beam_size
        return _IndependentState(
            position=ops.convert_to_tensor(0, "int32"),
            last_ids=self._first_ids(request),
            token_ids=ops.full((*sizes, length), self._ids.pad, dtype="int32"),
            log_probabilities=ops.zeros(sizes, "float32"),
            lengths=ops.zeros(sizes, "int32"),
            ended=ops.zeros(sizes, "bool"),
            uniforms=self._uniforms(request),
            limits=self._source_limits(request),
            cache=cache,
        )

    def is_running(self, state: _IndependentState, max_length: int) -> Tensor:
        """Return which sources have an unfinished hypothesis, boolean `(b,)`."""
        return ops.logical_not(ops.all(state.ended, axis=1))

    def advance(self, state: _IndependentState, step: Step, max_length: int) -> _IndependentState:
        """Generate the next token of every hypothesis."""
        logits, cache = step(ops.reshape(state.last_ids, (-1,)), state.position, state.cache)
        chosen, gained = self._choose(logits, state, max_length)
        chosen, gained = (ops.reshape(part, (-1, self.beam_size)) for part in (chosen, gained))
        gained = ops.where(state.ended, 0.0, ops.maximum(gained, FORCED_LOG_PROBABILITY))
        chosen = ops.where(state.ended, self._ids.pad, chosen)
        is_position = ops.equal(ops.arange(dynamic_shape(state.token_ids)[2], dtype="int32"), state.position)
        return state._replace(
            position=state.position + 1,
            last_ids=chosen,
            token_ids=ops.where(is_position, chosen[..., None], state.token_ids),
            log_probabilities=state.log_probabilities + gained,
            lengths=state.lengths + ops.cast(ops.logical_not(state.ended), "int32"),
            ended=ops.logical_or(state.ended, ops.equal(chosen, self._ids.end)),
            cache=cache,
        )

    def finalize(self, state: _IndependentState, max_length: int) -> SearchResult:
        """Sort the hypotheses of each source by score, best first."""
        scores = self.score(state.log_probabilities, state.lengths, state.limits.length_penalties)
        token_ids = self._pad_hypotheses(state.token_ids, max_length)
        if self.beam_size == 1:
            return SearchResult(token_ids, scores)
        scores, order = largest(scores, self.beam_size)
        return SearchResult(ops.take_along_axis(token_ids, order[..., None], axis=1), scores)

    def _uniforms(self, request: _Request) -> Tensor:
        """Draw the random numbers of the whole search, `(b, n, any)`."""
        return ops.zeros((request.batch_size, self.beam_size, 0))

    @abc.abstractmethod
    def _choose(self, logits: Tensor, state: _IndependentState, max_length: int) -> tuple[Tensor, Tensor]:
        """Choose the next token of each row: ids, int32 `(b * n,)`, and their log-probabilities."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class GreedySearch(_IndependentSearch):
    """Greedy search: take the most likely token at each step until every output has ended.

    The length penalty changes only the reported score, not the search.

    Raises:
        ValueError: If the length penalty is negative.

    Example:
        >>> GreedySearch(length_penalty=0.5) == GreedySearch()
        False
    """

    kind: ClassVar[str] = "greedy"

    def _choose(self, logits: Tensor, state: _IndependentState, max_length: int) -> tuple[Tensor, Tensor]:
        scores, allowed = self._allowed(logits, state.token_ids, state.position, state.limits, max_length)
        _, chosen = largest(allowed)
        gained = ops.take_along_axis(scores, chosen, axis=-1)
        return chosen[:, 0], gained[:, 0]


@dataclasses.dataclass(frozen=True)
class SampleSearch(_IndependentSearch):
    """Sampling with temperature, top-k and top-p: draw `num_samples` outputs for each source.

    Constraints, temperature, `top_k` and `top_p` change the distribution in this order; `top_p` applies to
    the probabilities that are left, scaled to sum to 1. The score is the log-probability by the unchanged
    model (temperature 1, whole vocabulary), divided by the length penalty as in `BeamSearch`.

    With a seed, each call returns the same outputs, eagerly and compiled. The outputs of a source depend on
    its index in the batch. In a `Translator`, they depend on its index among all texts of the call, and not
    on `batch_size`.

    Raises:
        TypeError: If an option has the wrong type.
        ValueError: If an option is out of its range.

    Example:
        >>> SampleSearch(temperature=0.8, top_p=0.95, num_samples=3, seed=7).num_outputs
        3
    """

    temperature: float = 1.0
    """Divisor of the log-probabilities. Below 1, likely tokens become likelier; above 1, outputs vary more.
    As it approaches 0, sampling becomes greedy search."""
    top_k: int | None = None
    """Sample only from this number of most likely tokens. Defaults to all."""
    top_p: float | None = None
    """Nucleus sampling (Holtzman et al. 2020): sample from the smallest set of tokens whose cumulative
    probability reaches `top_p`. Defaults to all tokens."""
    _: dataclasses.KW_ONLY
    num_samples: int = 1
    """Number of outputs for each source, `n`. They are sorted by score, best first."""
    seed: int | None = None
    """Random seed. If None, outputs differ between calls and depend on Keras's global generator."""

    kind: ClassVar[str] = "sample"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.temperature:
            raise ValueError(
                "`temperature` must be above zero; `GreedySearch` always takes the likeliest token. "
                f"Received: temperature={self.temperature}."
            )
        check_number(above=0, temperature=self.temperature)
        check_positive(num_samples=self.num_samples, top_k=1 if self.top_k is None else self.top_k)
        if self.top_p is not None:
            check_number(above=0, top_p=self.top_p)
            if self.top_p > 1:
                raise ValueError(f"`top_p` must be at most 1. Received: top_p={self.top_p}.")
        if self.seed is not None and (isinstance(self.seed, bool) or not isinstance(self.seed, int)):
            raise TypeError(f"`seed` must be an integer or None. Received: seed={self.seed!r}.")

    @property
    def beam_size(self) -> int:
        """Number of hypotheses in the cache for each source, `n`."""
        return self.num_samples

    @property
    def is_random(self) -> bool:
        """Whether the search draws random numbers."""
        return True

    def choose(self, log_probabilities: Tensor, uniforms: Tensor) -> Tensor:
        """Sample a token id, int32 `(r,)`, from each distribution `(r, v)`.

        It inverts the cumulative distribution at `uniforms` `(r,)` in [0, 1), so the same random numbers
        return the same tokens in eager and compiled loops. A forbidden token is drawn only if a row has no
        other.
        """
        scores = ops.maximum(ops.cast(log_probabilities, "float32"), LOWEST_SCORE)
        if self.top_k is None and self.top_p in (None, 1):
            return _invert(self._weights(scores), uniforms)
        size = min(self.top_k or scores.shape[-1], scores.shape[-1])
        scores, token_ids = largest(scores, size)  # (r, k), the most likely first
        weights = self._weights(scores)
        if self.top_p is not None:
            weights = _nucleus(weights, self.top_p)
        rank = _invert(weights, uniforms)
        return ops.take_along_axis(token_ids, rank[:, None], axis=1)[:, 0]

    def _weights(self, scores: Tensor) -> Tensor:
        """Return unnormalised probabilities `(r, m)`, 1 for the most likely token."""
        # Subtract first: divided by a small temperature, the scores themselves would overflow.
        below_best = scores - ops.max(scores, axis=-1, keepdims=True)
        temperature = max(self.temperature, _LEAST_TEMPERATURE)
        return ops.where(_is_possible(scores), ops.exp(below_best / temperature), 0.0)

    def _uniforms(self, request: _Request) -> Tensor:
        # A hash of seed, source and step, since the numbers of `keras.random` differ between a graph and XLA.
        # By source number, since row indices would make the outputs depend on the batch size.
        numbers = request.source_numbers
        if numbers is None:
            numbers = ops.arange(request.batch_size, dtype="int32")
        samples = ops.arange(self.beam_size, dtype="int32")
        # (b,) -> (b * n,)
        rows = ops.reshape(ops.cast(numbers, "int32")[:, None] * self.beam_size + samples, (-1,))
        # Drawn before the loop, so that its steps are deterministic and the same in every form.
        uniforms = ops.transpose(draw_uniforms(self.seed, request.max_length, rows))
        # (b * n, T) -> (b, n, T)
        return ops.reshape(uniforms, (-1, self.beam_size, request.max_length))

    def _choose(self, logits: Tensor, state: _IndependentState, max_length: int) -> tuple[Tensor, Tensor]:
        scores, allowed = self._allowed(logits, state.token_ids, state.position, state.limits, max_length)
        uniforms = ops.reshape(ops.take(state.uniforms, state.position, axis=2), (-1,))
        chosen = self.choose(allowed, uniforms)
        # The score comes from the model's distribution, not from the changed one.
        return chosen, ops.take_along_axis(scores, chosen[:, None], axis=1)[:, 0]


def _nucleus(weights: Tensor, top_p: float) -> Tensor:
    """Set all weights `(r, m)`, sorted in descending order, to 0 except for the nucleus of `top_p`."""
    cumulated = ops.cumsum(weights, axis=-1)
    # The weight of all likelier tokens: 0 for the first, so at least one remains.
    before = cumulated - weights
    return ops.where(before < top_p * cumulated[:, -1:], weights, 0.0)


def _invert(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Return the first index at which the cumulative weights `(r, m)` exceed the uniform numbers `(r,)`."""
    size = weights.shape[-1]
    cumulated = ops.cumsum(weights, axis=-1)
    passed = cumulated > uniforms[:, None] * cumulated[:, -1:]
    # A sum computed in parallel may increase where a weight is 0, so such indices are skipped.
    passed = ops.logical_and(passed, weights > 0)
    first = ops.min(ops.where(passed, ops.arange(size, dtype="int32"), size), axis=-1)
    # Close to 1, the product may round up to the whole sum, which no cumulative weight exceeds.
    best = ops.cast(ops.argmax(weights, axis=-1), "int32")
    return ops.where(first < size, ops.cast(first, "int32"), best)
