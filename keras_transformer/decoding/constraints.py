"""What a search may not write: lengths, banned tokens, repetitions."""

import dataclasses
import functools
from typing import Any

from keras import ops

from keras_transformer.decoding.contract import SpecialIds
from keras_transformer.decoding.length_bounds import (
    check_bounds,
    check_max_length,
    longest_lengths,
    shortest_lengths,
)
from keras_transformer.decoding.token_rules import (
    banned_tokens,
    forbid,
    keep_only,
    penalize_repetition,
    repeated_ngrams,
)
from keras_transformer.decoding.validation import check_number
from keras_transformer.types import Tensor


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
