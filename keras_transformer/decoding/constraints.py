"""What a search may not write: lengths, banned tokens, repetitions."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_transformer.decoding.log_probabilities import LOWEST_SCORE
from keras_transformer.decoding.validation import check_number
from keras_transformer.types import SpecialIds, Tensor

# Products such as 1.1 * 10 lie a little beside the whole number that is meant.
ROUNDING = 1e-4


def shortest_lengths(source_lengths: Tensor, min_length: int, ratio: float) -> Tensor:
    """Compute the fewest tokens of each answer.

    Args:
        source_lengths: integers `(b,)`.
        min_length: the absolute bound.
        ratio: the relative one, which is rounded up.

    Returns:
        int32 `(b,)`: the larger one of the two.
    """
    relative = ops.ceil(ops.cast(source_lengths, "float32") * ratio - ROUNDING)
    return ops.maximum(ops.cast(relative, "int32"), min_length)


def longest_lengths(source_lengths: Tensor, max_length: int, ratio: float | None, offset: int) -> Tensor:
    """Compute the most tokens of each answer.

    Args:
        source_lengths: integers `(b,)`.
        max_length: the absolute bound, `T`.
        ratio: the relative one, which is rounded down; None for none.
        offset: added to the relative one.

    Returns:
        int32 `(b,)`: the smaller one of the two, and at least 1.
    """
    if ratio is None:
        return ops.full_like(source_lengths, max_length, dtype="int32")
    relative = ops.floor(ops.cast(source_lengths, "float32") * ratio + ROUNDING)
    return ops.clip(ops.cast(relative, "int32") + offset, 1, max_length)


def check_bounds(min_ratio: float, max_ratio: float | None, max_offset: int) -> None:
    """Refuse relative bounds that exclude each other or do nothing.

    Args:
        min_ratio: of the shortest length.
        max_ratio: of the longest length, or None.
        max_offset: of the longest length.

    Raises:
        ValueError: an offset to nothing, or the shortest length grows faster than the longest.
    """
    if max_ratio is None and max_offset:
        raise ValueError(
            "`max_length_offset` must come with a `max_length_ratio`. "
            f"Received: max_length_offset={max_offset}, max_length_ratio=None."
        )
    if max_ratio is not None and min_ratio > max_ratio:
        raise ValueError(
            "`min_length_ratio` must not be above `max_length_ratio`. "
            f"Received: min_length_ratio={min_ratio}, max_length_ratio={max_ratio}."
        )


def check_max_length(min_length: int, max_length: int) -> None:
    """Refuse a search that may not write as much as it must.

    Args:
        min_length: the fewest tokens.
        max_length: the search's maximum, `T`.

    Raises:
        ValueError: the maximum is the smaller one.
    """
    if max_length < min_length:
        raise ValueError(
            "`min_length` must not be above `max_length`. "
            f"Received: min_length={min_length}, max_length={max_length}."
        )


# What a token that must be taken costs at most: a model may give it no chance at all, and then the
# hypothesis must still be one, which has a score that others can be compared with.
FORCED_LOG_PROBABILITY = -100.0


def is_possible(log_probabilities: Tensor) -> Tensor:
    """Tell log-probabilities of some probability from those of what is forbidden.

    Args:
        log_probabilities: of any shape, of tokens or of whole hypotheses.

    Returns:
        A boolean tensor of the same shape.
    """
    # Hypotheses add what the model gave to `LOWEST_SCORE`, so a wide gap separates the two.
    return log_probabilities > LOWEST_SCORE / 1e6


def keep_only(log_probabilities: Tensor, token_ids: Tensor | int) -> Tensor:
    """Forbid every token but one, which keeps the log-probability of the model.

    Args:
        log_probabilities: `(r, v)`.
        token_ids: integers `(r, 1)`, the token that each row must take; or one id for all.

    Returns:
        Float `(r, v)`. The token that is left costs at most `FORCED_LOG_PROBABILITY`.
    """
    is_kept = ops.equal(ops.arange(log_probabilities.shape[-1]), token_ids)
    return ops.where(is_kept, ops.maximum(log_probabilities, FORCED_LOG_PROBABILITY), LOWEST_SCORE)


def forbid(log_probabilities: Tensor, forbidden: Tensor, end_id: int) -> Tensor:
    """Forbid tokens; a row in which nothing is left may end, whatever forbids it.

    Args:
        log_probabilities: `(r, v)`.
        forbidden: bool `(r, v)` or `(1, v)`.
        end_id: the token that ends a hypothesis.

    Returns:
        Float `(r, v)`.
    """
    allowed = ops.where(forbidden, LOWEST_SCORE, log_probabilities)
    has_choice = ops.any(is_possible(allowed), axis=-1, keepdims=True)  # (r, 1)
    return ops.where(has_choice, allowed, keep_only(log_probabilities, end_id))


def banned_tokens(token_ids: Sequence[int], vocabulary_size: int, end_id: int) -> Tensor:
    """Mark tokens that are never generated.

    Args:
        token_ids: the tokens.
        vocabulary_size: the number of ids, `v`.
        end_id: the token that ends a hypothesis.

    Returns:
        bool `(1, v)`.

    Raises:
        ValueError: a token is the end token, or not in the vocabulary.
    """
    for token_id in token_ids:
        if token_id >= vocabulary_size or token_id == end_id:
            raise ValueError(
                "`banned_token_ids` must be in the vocabulary and not the end token. Received: "
                f"{token_id} in banned_token_ids, vocabulary_size={vocabulary_size}, end={end_id}."
            )
    return ops.convert_to_tensor(np.isin(np.arange(vocabulary_size), token_ids)[None, :])


def penalize_repetition(
    log_probabilities: Tensor, history: Tensor, position: Tensor | int, penalty: float
) -> Tensor:
    """Make the tokens that a row has generated less likely; Keskar et al. 2019 ("CTRL"), section 4.1.

    A positive value is divided by the penalty, a negative one multiplied with it. A log-probability is
    never positive, so here a token as likely as `p` becomes as likely as `p ** penalty`, without
    sharing out what it lost. The tokens of the source do not count.

    Args:
        log_probabilities: `(r, v)`; logits will do as well.
        history: integers `(r, T)`, of which the first `position` were generated.
        position: an integer scalar.
        penalty: above 1 against repetition, below 1 for it.

    Returns:
        Float `(r, v)`.
    """
    seen = repeated_ngrams(history, position, 1, log_probabilities.shape[-1])
    factor = ops.where(log_probabilities > 0, 1.0 / penalty, penalty)
    return ops.where(seen, log_probabilities * factor, log_probabilities)


def repeated_ngrams(history: Tensor, position: Tensor | int, size: int, vocabulary_size: int) -> Tensor:
    """Find the tokens that would complete an n-gram that a row already has.

    Args:
        history: integers `(r, T)`, of which the first `position` were generated.
        position: an integer scalar.
        size: tokens of an n-gram; with 1, every token that was generated is found.
        vocabulary_size: the number of ids, `v`.

    Returns:
        bool `(r, v)`.
    """
    history, position = ops.cast(history, "int32"), ops.cast(position, "int32")
    # Windows that begin near the end hang over it; none of them is complete.
    num_windows = ops.shape(history)[1]
    history = ops.pad(history, ((0, 0), (0, size - 1)))
    last = ops.arange(num_windows, dtype="int32") + size - 1  # where the n-gram of each window ends
    repeats = ops.broadcast_to(last < position, ops.shape(history[:, :num_windows]))
    for place in range(size - 1):
        # Before there are as many tokens no window is complete, so the bound changes nothing.
        current = ops.take(history, ops.maximum(position - size + 1 + place, 0), axis=1)  # (r,)
        same = ops.equal(history[:, place : place + num_windows], current[:, None])
        repeats = ops.logical_and(repeats, same)
    return _mark(history[:, size - 1 :], repeats, vocabulary_size)


def _mark(token_ids: Tensor, is_marked: Tensor, vocabulary_size: int) -> Tensor:
    """Turn tokens `(r, m)`, some of them marked, into the rows of a vocabulary, bool `(r, v)`."""
    rows = ops.arange(ops.shape(token_ids)[0], dtype="int32")
    rows = ops.broadcast_to(rows[:, None], ops.shape(token_ids))
    columns = ops.where(is_marked, token_ids, vocabulary_size)  # what is not marked goes behind the end
    indices = ops.reshape(ops.stack([rows, columns], axis=-1), (-1, 2))
    nothing = ops.zeros((ops.shape(token_ids)[0], vocabulary_size + 1), "float32")
    ones = ops.ones_like(indices[:, 0], dtype="float32")
    return ops.scatter_update(nothing, indices, ones)[:, :vocabulary_size] > 0


def force_prefix(
    log_probabilities: Tensor,
    prefix_ids: Tensor,
    position: Tensor | int,
    special_ids: SpecialIds | None = None,
    allowed: Tensor | None = None,
) -> Tensor:
    """Allow only the prefix's token, as long as a row has one for this position.

    The token keeps the log-probability that the model gives it, so the score of an answer stays that
    of the model, the prefix included, whatever rules there are for the tokens after it. One that the
    model gives no chance, or that is never generated, such as the unknown token, counts
    `FORCED_LOG_PROBABILITY`.

    Args:
        log_probabilities: `(r, v)`, the model's own.
        prefix_ids: integers `(r, p)`, without the start token, padded on the right.
        position: an integer scalar, 0 for the first token.
        special_ids: which token is padding.
        allowed: `(r, v)`, after every other rule: a prefix overrules them; None where there are none.

    Returns:
        Float `(r, v)`; rows whose prefix is over as they are in `allowed`.

    Raises:
        ValueError: prefixes of another rank, or of an unknown length.

    Example:
        >>> forced = force_prefix(ops.log([[0.1, 0.2, 0.3, 0.4]]), ops.convert_to_tensor([[2]]), 0)
        >>> int(ops.argmax(forced))
        2
    """
    if len(prefix_ids.shape) != 2 or prefix_ids.shape[1] is None:
        raise ValueError(
            f"`prefix_ids` must have shape (r, p), p a known number. "
            f"Received: shape={tuple(prefix_ids.shape)}."
        )
    pad, length = (special_ids or SpecialIds()).pad, prefix_ids.shape[1]
    allowed = log_probabilities if allowed is None else allowed
    if not length:
        return allowed
    position = ops.cast(position, "int32")
    token_ids = ops.take(ops.cast(prefix_ids, "int32"), ops.minimum(position, length - 1), axis=1)[:, None]
    is_forced = ops.logical_and(position < length, ops.not_equal(token_ids, pad))  # (r, 1)
    return ops.where(is_forced, keep_only(log_probabilities, token_ids), allowed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constraints:
    """Rules for what a search generates, checked when they are made; by default there are none.

    Lengths count tokens as the scores do, the end token included, on both sides. Bounds that depend on
    the source are rounded so that they hold: the shorter one up, the longer one down.

    Where rules contradict each other, a hypothesis may end: the longest length wins over the shortest,
    and a row in which nothing else is allowed may end before its shortest length.

    Raises:
        TypeError: a value of another type.
        ValueError: a value out of its range, or bounds that exclude each other.

    Example:
        >>> rules = Constraints(min_length=2, max_length_ratio=1.5, banned_token_ids=(7,))
        >>> Constraints(**rules.to_dict()) == rules
        True
    """

    min_length: int = 0
    """The fewest tokens; 0 and 1 allow the empty answer."""
    min_length_ratio: float = 0.0
    """The fewest tokens, as a multiple of the source's length."""
    max_length_ratio: float | None = None
    """The most tokens, as a multiple of the source's length; None leaves only the search's maximum."""
    max_length_offset: int = 0
    """Added to that multiple, so that short sources have room."""
    banned_token_ids: tuple[int, ...] = ()
    """Tokens that are never generated, beside the special ones."""
    no_repeat_ngram_size: int = 0
    """No sequence of so many tokens comes twice in an answer; 0 allows all."""
    repetition_penalty: float = 1.0
    """See `penalize_repetition`; 1 for none."""

    def __post_init__(self) -> None:
        """Check the values."""
        object.__setattr__(self, "banned_token_ids", tuple(self.banned_token_ids))
        for name in ("min_length", "max_length_offset", "no_repeat_ngram_size"):
            check_number(name, getattr(self, name), whole=True)
        for token_id in self.banned_token_ids:
            check_number("banned_token_ids", token_id, whole=True)
        check_number("min_length_ratio", self.min_length_ratio)
        check_number("repetition_penalty", self.repetition_penalty, above_zero=True)
        if self.max_length_ratio is not None:
            check_number("max_length_ratio", self.max_length_ratio, above_zero=True)
        check_bounds(self.min_length_ratio, self.max_length_ratio, self.max_length_offset)

    def to_dict(self) -> dict[str, Any]:
        """Give the values by name, as JSON can hold them; `Constraints(**values)` reads them."""
        return {**dataclasses.asdict(self), "banned_token_ids": [int(i) for i in self.banned_token_ids]}

    @property
    def needs_history(self) -> bool:
        """Whether `apply` needs the tokens so far."""
        return self.no_repeat_ngram_size > 0 or self.repetition_penalty != 1.0

    @property
    def needs_source_lengths(self) -> bool:
        """Whether a bound depends on the source, so that `bounds` needs the lengths of the sources."""
        return self.min_length_ratio > 0 or self.max_length_ratio is not None

    def shortest(self, source_lengths: Tensor) -> Tensor:
        """Compute the fewest tokens of each answer.

        Args:
            source_lengths: integers `(b,)`, tokens of each source, the end token included.

        Returns:
            int32 `(b,)`: the larger one of the absolute and the relative bound.
        """
        return shortest_lengths(source_lengths, self.min_length, self.min_length_ratio)

    def longest(self, source_lengths: Tensor, max_length: int) -> Tensor:
        """Compute the most tokens of each answer.

        Args:
            source_lengths: integers `(b,)`, tokens of each source, the end token included.
            max_length: the search's maximum, `T`.

        Returns:
            int32 `(b,)`, at least 1 and at most `max_length`.
        """
        return longest_lengths(source_lengths, max_length, self.max_length_ratio, self.max_length_offset)

    def bounds(
        self, source_lengths: Tensor | None, max_length: int, num_hypotheses: int = 1
    ) -> tuple[Tensor, Tensor]:
        """Give the bounds of each hypothesis as `apply` takes them and the state of a loop keeps them.

        Args:
            source_lengths: integers `(b,)`, or None where no bound depends on them.
            max_length: the search's maximum, `T`.
            num_hypotheses: of each source, `n`.

        Returns:
            `shortest` and `longest`, int32 `(b * n,)`; `()` where no bound depends on the source.

        Raises:
            ValueError: a `max_length` below `min_length`, or lengths that are needed and missing.
        """
        check_max_length(self.min_length, max_length)
        if not self.needs_source_lengths:
            return (), ()
        if source_lengths is None:
            raise ValueError(f"`source_lengths` is needed by these constraints. Received: None, {self}.")
        bounds = self.shortest(source_lengths), self.longest(source_lengths, max_length)
        return ops.repeat(bounds[0], num_hypotheses, axis=0), ops.repeat(bounds[1], num_hypotheses, axis=0)

    def apply(
        self,
        log_probabilities: Tensor,
        history: Tensor | None,
        position: Tensor | int,
        shortest: Tensor,
        longest: Tensor,
        max_length: int,
        special_ids: SpecialIds,
    ) -> Tensor:
        """Apply the rules to one step; those that are off cost nothing.

        A row that reached its longest length may only end. Where that is the search's maximum, the
        search cuts it off without an end, as it does without constraints.

        Args:
            log_probabilities: float `(r, v)`, of the next token of each hypothesis.
            history: integers `(r, T)`, batch first and without the start token, of which the first
                `position` were generated; may be None unless `needs_history`.
            position: an integer scalar: how many tokens were generated.
            shortest: int32 `(r,)`, from `bounds`; `()` where no bound depends on the source.
            longest: int32 `(r,)`, from `bounds`; `()` likewise.
            max_length: the search's maximum, `T`.
            special_ids: which tokens are special.

        Returns:
            Float `(r, v)`: `LOWEST_SCORE` for what may not be generated.

        Raises:
            ValueError: a history is needed and missing, or a banned token is the end token or not in
                the vocabulary.
        """
        if history is None and self.needs_history:
            raise ValueError(f"`history` is needed by these constraints. Received: history=None, {self}.")
        scores = allowed = (
            penalize_repetition(log_probabilities, history, position, self.repetition_penalty)
            if self.repetition_penalty != 1.0
            else log_probabilities
        )
        forbidden = self._forbidden(scores.shape[-1], history, position, shortest, special_ids.end)
        if forbidden:
            allowed = forbid(scores, functools.reduce(ops.logical_or, forbidden), special_ids.end)
        if self.max_length_ratio is None:
            return allowed
        is_last = ops.logical_and(longest < max_length, longest <= position + 1)
        return ops.where(is_last[:, None], keep_only(scores, special_ids.end), allowed)

    def _forbidden(
        self,
        vocabulary_size: int,
        history: Tensor,
        position: Tensor | int,
        shortest: Tensor,
        end_id: int,
    ) -> list[Tensor]:
        """Give what each rule forbids, bool `(r, v)` or `(1, v)`."""
        masks = []
        if self.banned_token_ids:
            masks.append(banned_tokens(self.banned_token_ids, vocabulary_size, end_id))
        if self.no_repeat_ngram_size:
            masks.append(repeated_ngrams(history, position, self.no_repeat_ngram_size, vocabulary_size))
        if self.min_length_ratio or self.min_length > 1:
            too_short = (shortest[:, None] if self.min_length_ratio else self.min_length) > position + 1
            is_end = ops.equal(ops.arange(vocabulary_size), end_id)
            masks.append(ops.logical_and(too_short, is_end[None, :]))
        return masks
