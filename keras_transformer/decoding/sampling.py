"""Drawing the next token by chance: temperature, top-k, top-p."""

import dataclasses

from keras import ops

from keras_transformer.decoding.largest import top_k
from keras_transformer.decoding.scores import LOWEST_SCORE
from keras_transformer.decoding.token_rules import is_possible
from keras_transformer.decoding.validation import check_number
from keras_transformer.layers.validation import check_positive
from keras_transformer.types import Tensor


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
