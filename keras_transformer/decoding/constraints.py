"""Constraints of a search: lengths, banned tokens, repetitions, and prefixes that must be generated."""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_transformer._arguments import check_flags, check_number, check_several
from keras_transformer.decoding.log_probabilities import FORCED_LOG_PROBABILITY, _is_possible
from keras_transformer.types import LOWEST_SCORE, SpecialIds, Tensor

# Products such as 1.1 * 10 differ a little from the whole number that is meant.
_ROUNDING = 1e-4


def _is_absent(part: Tensor) -> bool:
    """Return whether a part of a state is `()`: a loop cannot carry None."""
    return isinstance(part, tuple)


def _checked_ids(name: str, token_ids: Iterable[int]) -> tuple[int, ...]:
    """Return ids as integers of Python."""
    check_several(object, **{name: token_ids})
    token_ids = tuple(token_ids)
    for token_id in token_ids:
        named: dict[str, int] = {name: token_id}
        check_number(whole=True, **named)
    return tuple(map(int, token_ids))


class _Limits(NamedTuple):
    """Bounds of each source; `()` where there is none."""

    shortest: Tensor = ()  # int32 `(b,)`: the fewest tokens
    longest: Tensor = ()  # int32 `(b,)`: the most tokens
    prefix_ids: Tensor = ()  # int32 `(b, p)`, padded: the first tokens of every hypothesis
    num_unscored: Tensor = ()  # int32 `(b,)`: the tokens of a prefix that do not count in the scores
    max_lengths: Tensor = ()  # int32 `(b,)`: the tokens after which a hypothesis is cut off
    length_penalties: Tensor = ()  # float32 `(b,)`, instead of the search's

    def each(self, function: Callable[[Tensor], Tensor]) -> "_Limits":
        """Apply a function to each bound that there is."""
        return _Limits(*(part if _is_absent(part) else function(part) for part in self))

    def most(self, max_length: int) -> Tensor | int:
        """Return the tokens after which a hypothesis is cut off: of each source, or the search's maximum."""
        return max_length if _is_absent(self.max_lengths) else self.max_lengths


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constraints:
    """Rules for the tokens that a search generates; by default there are none.

    Lengths count tokens as the scores do, the end token included, on both sides. Bounds that depend on the
    source are rounded so that they hold: the shortest length up, the longest down.

    Where rules contradict each other, a hypothesis may end: the longest length wins over the shortest, and a
    hypothesis in which nothing else is allowed may end before its shortest length. A prefix wins over both,
    and a forced token over all.

    Raises:
        TypeError: If a value has another type.
        ValueError: If a value is out of its range, or bounds exclude each other.

    Example:
        >>> rules = Constraints(min_length=2, max_length_ratio=1.5, banned_token_ids=(7,))
        >>> Constraints(**dataclasses.asdict(rules)) == rules
        True
    """

    min_length: int = 0
    """The fewest tokens; 0 and 1 allow the empty output."""
    min_length_ratio: float = 0.0
    """The fewest tokens, as a multiple of the source's length."""
    max_length_ratio: float | None = None
    """The most tokens, as a multiple of the source's length; None leaves only the search's maximum."""
    max_length_offset: int = 0
    """Added to that multiple, so that short sources have room."""
    banned_token_ids: tuple[int, ...] = ()
    """Tokens that are never generated, in addition to the special ones."""
    banned_first_token_ids: tuple[int, ...] = ()
    """Tokens that are not generated first, after `first_token_ids`; the end token may be one."""
    banned_sequences: tuple[tuple[int, ...], ...] = ()
    """Sequences of two tokens or more that are never generated."""
    first_token_ids: tuple[int, ...] = ()
    """What every hypothesis begins with, before a prefix, as a language's token in mBART: with the
    log-probability 0, while lengths count it. A target that is scored begins with it, too."""
    force_end: bool = False
    """Whether a hypothesis that reaches the maximal length ends there, with the log-probability 0."""
    no_repeat_ngram_size: int = 0
    """No sequence of so many tokens comes twice in an output; 0 allows all."""
    repetition_penalty: float = 1.0
    """Exponent of the probability of tokens that were already generated: above 1 against repetition, 1 for
    none. Keskar et al. 2019 ("CTRL"), section 4.1: a log-probability is multiplied by it, without sharing out
    what the token lost. The tokens of the source do not count."""

    def __post_init__(self) -> None:
        check_number(
            whole=True,
            min_length=self.min_length,
            max_length_offset=self.max_length_offset,
            no_repeat_ngram_size=self.no_repeat_ngram_size,
        )
        check_flags(force_end=self.force_end)
        for name in ("banned_token_ids", "banned_first_token_ids", "first_token_ids"):
            object.__setattr__(self, name, _checked_ids(name, getattr(self, name)))
        check_several((tuple, list), banned_sequences=self.banned_sequences)
        sequences = tuple(_checked_ids("banned_sequences", each) for each in self.banned_sequences)
        object.__setattr__(self, "banned_sequences", sequences)
        if any(len(sequence) < 2 for sequence in sequences):
            raise ValueError(
                "`banned_sequences` must have at least two tokens each; `banned_token_ids` bans one. "
                f"Received: banned_sequences={sequences}."
            )
        check_number(min_length_ratio=self.min_length_ratio)
        check_number(above=0, repetition_penalty=self.repetition_penalty)
        if self.max_length_ratio is not None:
            check_number(above=0, max_length_ratio=self.max_length_ratio)
        elif self.max_length_offset:
            raise ValueError(
                "`max_length_offset` must come with a `max_length_ratio`. "
                f"Received: max_length_offset={self.max_length_offset}, max_length_ratio=None."
            )
        if self.max_length_ratio is not None and self.min_length_ratio > self.max_length_ratio:
            raise ValueError(
                "`min_length_ratio` must not be above `max_length_ratio`. Received: "
                f"min_length_ratio={self.min_length_ratio}, max_length_ratio={self.max_length_ratio}."
            )

    def limits(
        self, max_length: int, source_lengths: Tensor | None = None, prefix_ids: Tensor | None = None
    ) -> _Limits:
        """Compute the limits of each source before a loop; `max_length` is that of the search."""
        if max_length < self.min_length:
            raise ValueError(
                "`min_length` must not be above `max_length`. "
                f"Received: min_length={self.min_length}, max_length={max_length}."
            )
        prefix_ids = _checked_prefixes(prefix_ids)
        if not self.min_length_ratio and self.max_length_ratio is None:
            return _Limits(prefix_ids=prefix_ids)
        if source_lengths is None:
            raise ValueError(
                f"Length ratios need sources. Received: min_length_ratio={self.min_length_ratio}, "
                f"max_length_ratio={self.max_length_ratio}, a model without an encoder."
            )
        # Once for each source, before the loop; a step then compares integers.
        lengths = ops.cast(source_lengths, "float32")
        shortest = ops.cast(ops.ceil(lengths * self.min_length_ratio - _ROUNDING), "int32")
        longest = ops.full_like(source_lengths, max_length, dtype="int32")
        if self.max_length_ratio is not None:
            longest = ops.cast(ops.floor(lengths * self.max_length_ratio + _ROUNDING), "int32")
            longest = ops.clip(longest + self.max_length_offset, 1, max_length)
        return _Limits(ops.maximum(shortest, self.min_length), longest, prefix_ids)

    def is_idle(self, limits: _Limits) -> bool:
        """Return whether every ordinary token may always follow."""
        return self == NO_CONSTRAINTS and _is_absent(limits.prefix_ids)

    def apply(
        self,
        log_probabilities: Tensor,
        history: Tensor,
        position: Tensor | int,
        limits: _Limits,
        max_length: Tensor | int,
        special_ids: SpecialIds,
    ) -> Tensor:
        """Apply the rules to log-probabilities `(r, v)`: `LOWEST_SCORE` for what may not be generated."""
        # Rules that are off cost nothing. `history` is `(b, n, t)` without the start token, of which the
        # first `position` tokens were generated; `limits` are those of `r` hypotheses. In this order: a
        # penalty reshapes scores, rules forbid tokens, and a prefix overrules both.
        scores = allowed = self._penalized(log_probabilities, history, position, special_ids)
        forbidden = self._forbidden(scores.shape[-1], history, position, limits.shortest, special_ids.end)
        if forbidden:
            allowed = _forbid(scores, functools.reduce(ops.logical_or, forbidden), special_ids.end)
        if self.max_length_ratio is not None:
            # A hypothesis that reached its longest length may only end. Where that is the search's maximum,
            # the search cuts it off without an end, as it does without constraints.
            is_last = ops.logical_and(limits.longest < max_length, limits.longest <= position + 1)
            allowed = ops.where(is_last[:, None], _keep_only(scores, special_ids.end), allowed)
        if _is_absent(limits.prefix_ids):
            return allowed
        place = position - len(self.first_token_ids)
        return _force_prefix(log_probabilities, allowed, limits.prefix_ids, place, special_ids.pad)

    def force(
        self, log_probabilities: Tensor, position: Tensor | int, max_length: Tensor | int, end_id: int
    ) -> Tensor:
        """Give tokens that must be generated all probability in `(r, v)`; `max_length` is one or `(r,)`."""
        vocabulary = np.arange(log_probabilities.shape[-1])
        if self.first_token_ids:
            _check_vocabulary("first_token_ids", self.first_token_ids, len(vocabulary))
            each = np.where(vocabulary == np.array(self.first_token_ids)[:, None], 0.0, LOWEST_SCORE)
            each = ops.convert_to_tensor(each, "float32")
            num_forced = len(self.first_token_ids)
            forced = ops.take(each, ops.minimum(position, num_forced - 1), axis=0)
            log_probabilities = ops.where(position < num_forced, forced[None, :], log_probabilities)
        if self.force_end:
            is_last = ops.reshape(position + 1 >= max_length, (-1, 1))
            end = np.where(vocabulary == end_id, 0.0, LOWEST_SCORE).astype("float32")
            log_probabilities = ops.where(is_last, end[None, :], log_probabilities)
        return log_probabilities

    def _penalized(
        self, log_probabilities: Tensor, history: Tensor, position: Tensor | int, special_ids: SpecialIds
    ) -> Tensor:
        if self.repetition_penalty == 1.0:
            return log_probabilities
        seen = _repeated_ngrams(history, position, 1, log_probabilities.shape[-1])
        if special_ids.start == special_ids.end:
            # In transformers the start token counts, which only here can be generated.
            seen = ops.logical_or(seen, ops.equal(ops.arange(seen.shape[-1]), special_ids.end)[None, :])
        return ops.where(seen, log_probabilities * self.repetition_penalty, log_probabilities)

    def _forbidden(
        self, vocabulary_size: int, history: Tensor, position: Tensor | int, shortest: Tensor, end_id: int
    ) -> list[Tensor]:
        """Return what each rule forbids, bool `(r, v)` or `(1, v)`."""
        masks = []
        if self.banned_token_ids:
            _check_vocabulary("banned_token_ids", self.banned_token_ids, vocabulary_size, end_id)
            masks.append(_banned_tokens(self.banned_token_ids, vocabulary_size))
        if self.banned_first_token_ids:
            _check_vocabulary("banned_first_token_ids", self.banned_first_token_ids, vocabulary_size)
            is_first = ops.equal(position, len(self.first_token_ids))
            masks.append(
                ops.logical_and(is_first, _banned_tokens(self.banned_first_token_ids, vocabulary_size))
            )
        if self.banned_sequences:
            for sequence in self.banned_sequences:
                _check_vocabulary("banned_sequences", sequence, vocabulary_size)
            masks.append(_completed_sequences(history, position, self.banned_sequences, vocabulary_size))
        if self.no_repeat_ngram_size:
            masks.append(_repeated_ngrams(history, position, self.no_repeat_ngram_size, vocabulary_size))
        # A minimum of 1 is the end token itself, which always comes.
        if self.min_length_ratio or self.min_length > 1:
            too_short = (shortest[:, None] if self.min_length_ratio else self.min_length) > position + 1
            is_end = ops.equal(ops.arange(vocabulary_size), end_id)
            masks.append(ops.logical_and(too_short, is_end[None, :]))
        return masks


NO_CONSTRAINTS = Constraints()


def _checked_prefixes(prefix_ids: Tensor | None) -> Tensor:
    """Return prefixes as int32; `()` where there are none."""
    if prefix_ids is None:
        return ()
    if len(prefix_ids.shape) != 2 or prefix_ids.shape[1] is None:
        raise ValueError(
            "`prefix_ids` must have the shape (b, p), p a known number. "
            f"Received: shape={tuple(prefix_ids.shape)}."
        )
    return ops.cast(prefix_ids, "int32") if prefix_ids.shape[1] else ()


def _keep_only(log_probabilities: Tensor, token_ids: Tensor | int) -> Tensor:
    """Forbid every token of `(r, v)` but one, `(r, 1)` or an id for all, which keeps its log-probability."""
    is_kept = ops.equal(ops.arange(log_probabilities.shape[-1]), token_ids)
    return ops.where(is_kept, ops.maximum(log_probabilities, FORCED_LOG_PROBABILITY), LOWEST_SCORE)


def _forbid(log_probabilities: Tensor, forbidden: Tensor, end_id: int) -> Tensor:
    """Forbid tokens; a row in which nothing is left may end, whatever forbids it."""
    allowed = ops.where(forbidden, LOWEST_SCORE, log_probabilities)
    has_choice = ops.any(_is_possible(allowed), axis=-1, keepdims=True)  # (r, 1)
    return ops.where(has_choice, allowed, _keep_only(log_probabilities, end_id))


def _force_prefix(
    log_probabilities: Tensor, allowed: Tensor, prefix_ids: Tensor, position: Tensor | int, pad_id: int
) -> Tensor:
    """Allow only the prefix's token, as long as a row has one for this position."""
    position, length = ops.cast(position, "int32"), prefix_ids.shape[1]
    token_ids = ops.take(prefix_ids, ops.clip(position, 0, length - 1), axis=1)[:, None]
    in_prefix = ops.logical_and(position >= 0, position < length)
    is_forced = ops.logical_and(in_prefix, ops.not_equal(token_ids, pad_id))
    # With the log-probability that the model gives it: so the score of a hypothesis stays that of the model,
    # the prefix included, whatever rules there are for the tokens after it.
    return ops.where(is_forced, _keep_only(log_probabilities, token_ids), allowed)


def _check_vocabulary(
    name: str, token_ids: tuple[int, ...], vocabulary_size: int, end_id: int | None = None
) -> None:
    for token_id in token_ids:
        if token_id >= vocabulary_size or token_id == end_id:
            raise ValueError(
                f"`{name}` must be in the vocabulary{'' if end_id is None else ' and not the end token'}. "
                f"Received: {token_id} in {name}, vocabulary_size={vocabulary_size}, end={end_id}."
            )


def _banned_tokens(token_ids: tuple[int, ...], vocabulary_size: int) -> Tensor:
    """Return a mask of banned tokens, bool `(1, v)`."""
    return ops.convert_to_tensor(np.isin(np.arange(vocabulary_size), token_ids)[None, :])


def _completed_sequences(
    history: Tensor, position: Tensor | int, sequences: tuple[tuple[int, ...], ...], vocabulary_size: int
) -> Tensor:
    """Find the tokens that would complete one of some sequences, bool `(r, v)`."""
    history = ops.reshape(ops.cast(history, "int32"), (-1, ops.shape(history)[-1]))
    position, last = ops.cast(position, "int32"), [sequence[-1] for sequence in sequences]
    completed = ops.ones((ops.shape(history)[0], len(sequences)), "bool")
    for back in range(1, max(map(len, sequences))):
        # The token that each sequence has there; what reaches further than a sequence fits it.
        wanted = np.array([each[-1 - back] if len(each) > back else -1 for each in sequences], "int32")
        before = ops.take(history, ops.maximum(position - back, 0), axis=1)[:, None]  # (r, 1)
        fits = ops.logical_and(position >= back, ops.equal(before, wanted[None, :]))
        completed = ops.logical_and(completed, ops.logical_or(fits, wanted[None, :] < 0))
    return _marked(ops.where(completed, np.array(last, "int32")[None, :], vocabulary_size), vocabulary_size)


def _repeated_ngrams(history: Tensor, position: Tensor | int, size: int, vocabulary_size: int) -> Tensor:
    """Find the tokens that would complete an n-gram that a row already has, bool `(r, v)`."""
    # Windows that begin near the end hang over it; none of them is complete.
    num_windows = ops.shape(history)[-1]
    history = ops.reshape(ops.cast(history, "int32"), (-1, num_windows))
    position = ops.cast(position, "int32")
    history = ops.pad(history, ((0, 0), (0, size - 1)))
    last = ops.arange(num_windows, dtype="int32") + size - 1  # where the n-gram of each window ends
    repeats = ops.broadcast_to(last < position, ops.shape(history[:, :num_windows]))
    for offset in range(size - 1):
        # Before there are as many tokens no window is complete, so the bound changes nothing.
        current = ops.take(history, ops.maximum(position - size + 1 + offset, 0), axis=1)  # (r,)
        same = ops.equal(history[:, offset : offset + num_windows], current[:, None])
        repeats = ops.logical_and(repeats, same)
    return _marked(ops.where(repeats, history[:, size - 1 :], vocabulary_size), vocabulary_size)


def _marked(columns: Tensor, vocabulary_size: int) -> Tensor:
    """Mark the ids that each row `(r, any)` has, bool `(r, v)`; the size of the vocabulary is none."""
    # It goes behind the end of the vocabulary, and is cut off again.
    num_rows = ops.shape(columns)[0]
    rows = ops.broadcast_to(ops.arange(num_rows, dtype="int32")[:, None], ops.shape(columns))
    indices = ops.reshape(ops.stack([rows, columns], axis=-1), (-1, 2))
    nothing = ops.zeros((num_rows, vocabulary_size + 1), "float32")
    ones = ops.ones_like(indices[:, 0], dtype="float32")
    return ops.scatter_update(nothing, indices, ones)[:, :vocabulary_size] > 0
