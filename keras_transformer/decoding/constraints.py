"""Constraints on generated tokens: lengths, banned tokens, repetition, prefixes."""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_transformer._arguments import check_flags, check_number, check_several
from keras_transformer.decoding.log_probabilities import (
    FORCED_LOG_PROBABILITY,
    _banned_tokens,
    _is_possible,
)
from keras_transformer.types import LOWEST_SCORE, SpecialIds, Tensor

# Products such as 1.1 * 10 are not exactly the intended integer.
_ROUNDING = 1e-4


def _is_absent(part: Tensor) -> bool:
    """Return whether a field is `()`, which replaces None: a loop cannot carry None."""
    return isinstance(part, tuple)


def _checked_ids(name: str, token_ids: Iterable[int]) -> tuple[int, ...]:
    """Validate token ids and return them as Python integers."""
    check_several(object, **{name: token_ids})
    token_ids = tuple(token_ids)
    for token_id in token_ids:
        named: dict[str, int] = {name: token_id}
        check_number(whole=True, **named)
    return tuple(map(int, token_ids))


class _Limits(NamedTuple):
    """Limits of each source; `()` for a limit that is not set."""

    shortest: Tensor = ()  # int32 `(b,)`: minimum number of tokens
    longest: Tensor = ()  # int32 `(b,)`: maximum number of tokens
    prefix_ids: Tensor = ()  # int32 `(b, p)`, padded: the first tokens of every hypothesis
    num_unscored: Tensor = ()  # int32 `(b,)`: number of prefix tokens that do not count in the scores
    max_lengths: Tensor = ()  # int32 `(b,)`: length at which a hypothesis is cut off
    length_penalties: Tensor = ()  # float32 `(b,)`: overrides the search's

    def each(self, function: Callable[[Tensor], Tensor]) -> "_Limits":
        """Apply a function to each limit that is set."""
        return _Limits(*(part if _is_absent(part) else function(part) for part in self))

    def cut_off_length(self, max_length: int) -> Tensor | int:
        """Return the length at which hypotheses are cut off: each source's, or `max_length`."""
        return max_length if _is_absent(self.max_lengths) else self.max_lengths


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constraints:
    """Constraints on the tokens that a search generates. By default there are none.

    Lengths include the end token, for sources and outputs. Minimum lengths computed from a ratio are rounded
    up, maximum lengths down.

    If rules conflict, the order of priority is: forced tokens, the prefix (`prefix_ids` of `generate`), the
    maximum length, the minimum length. A hypothesis with no allowed token left may end early.

    Raises:
        TypeError: If a value has another type.
        ValueError: If a value is out of its range, or limits exclude each other.

    Example:
        >>> rules = Constraints(min_length=2, max_length_ratio=1.5, banned_token_ids=(7,))
        >>> Constraints(**dataclasses.asdict(rules)) == rules
        True
    """

    min_length: int = 0
    """Minimum number of tokens. 0 and 1 allow the empty output."""
    min_length_ratio: float = 0.0
    """Minimum number of tokens, as a multiple of the source length."""
    max_length_ratio: float | None = None
    """Maximum number of tokens, as a multiple of the source length. If None, only the search's maximum."""
    max_length_offset: int = 0
    """Number of tokens added to the maximum from `max_length_ratio`, for the benefit of short sources."""
    banned_token_ids: tuple[int, ...] = ()
    """Ids of tokens that are never generated, in addition to the special tokens."""
    banned_first_token_ids: tuple[int, ...] = ()
    """Ids of tokens that are never the first token of an output, or the first after `first_token_ids` if
    these are given. May contain the end token."""
    banned_sequences: tuple[tuple[int, ...], ...] = ()
    """Sequences of at least two token ids that are never generated."""
    first_token_ids: tuple[int, ...] = ()
    """Forced first token ids of every hypothesis, such as the language token of mBART. A prefix follows them.
    They have the log-probability 0 and count in lengths. `Translator.score` also puts them before targets."""
    force_end: bool = False
    """Whether to force the end token, with the log-probability 0, at the maximum length."""
    no_repeat_ngram_size: int = 0
    """Size of the n-grams that may not occur twice in an output. 0 allows all repetitions."""
    repetition_penalty: float = 1.0
    """Factor of the log-probabilities of tokens that were already generated (Keskar et al. 2019, "CTRL",
    section 4.1). Above 1 it discourages repetition; 1 disables it. Tokens of the source do not count."""
    seen_token_ids: tuple[int, ...] = ()
    """Ids of tokens that count as generated before the first one, for `repetition_penalty` and
    `no_repeat_ngram_size=1`; in BART the end token, which its outputs start from."""
    renormalize: bool = False
    """Whether to divide the probabilities of the allowed tokens by their sum, so that beams compare them as
    with `renormalize_logits` of transformers."""

    def __post_init__(self) -> None:
        check_number(
            whole=True,
            min_length=self.min_length,
            max_length_offset=self.max_length_offset,
            no_repeat_ngram_size=self.no_repeat_ngram_size,
        )
        check_flags(force_end=self.force_end, renormalize=self.renormalize)
        for name in ("banned_token_ids", "banned_first_token_ids", "first_token_ids", "seen_token_ids"):
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
        """Compute the limits of the output for each source; `max_length` is the maximum of the search."""
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
        # Computed once, before the loop, so that each step only compares integers.
        lengths = ops.cast(source_lengths, "float32")
        shortest = ops.cast(ops.ceil(lengths * self.min_length_ratio - _ROUNDING), "int32")
        longest = ops.full_like(source_lengths, max_length, dtype="int32")
        if self.max_length_ratio is not None:
            longest = ops.cast(ops.floor(lengths * self.max_length_ratio + _ROUNDING), "int32")
            longest = ops.clip(longest + self.max_length_offset, 1, max_length)
        return _Limits(ops.maximum(shortest, self.min_length), longest, prefix_ids)

    def apply(
        self,
        log_probabilities: Tensor,
        history: Tensor,
        position: Tensor | int,
        limits: _Limits,
        max_length: Tensor | int,
        special_ids: SpecialIds,
    ) -> Tensor:
        """Apply the rules to log-probabilities `(r, v)`, a row for each hypothesis.

        Forbidden tokens get `LOWEST_SCORE`.
        """
        # Disabled rules cost nothing. `history` is `(b, n, t)` without the start token, with `position`
        # generated tokens; `limits` has `r` rows. The order matters: a penalty changes scores, then rules
        # forbid tokens, then a prefix overrides both.
        scores = allowed = self._penalized(log_probabilities, history, position)
        forbidden = self._forbidden(scores.shape[-1], history, position, limits.shortest, special_ids.end)
        if forbidden:
            allowed = _forbid(scores, functools.reduce(ops.logical_or, forbidden), special_ids.end)
        if self.max_length_ratio is not None:
            # At its maximum length a hypothesis may only end. If that is the search's maximum, the search
            # cuts it off without an end token, as it does without constraints.
            is_last = ops.logical_and(limits.longest < max_length, limits.longest <= position + 1)
            allowed = ops.where(is_last[:, None], _keep_only(scores, special_ids.end), allowed)
        if self.renormalize:
            allowed = ops.log_softmax(allowed, axis=-1)
        if _is_absent(limits.prefix_ids):
            return allowed
        place = position - len(self.first_token_ids)
        return _force_prefix(log_probabilities, allowed, limits.prefix_ids, place, special_ids.pad)

    def force(
        self, log_probabilities: Tensor, position: Tensor | int, max_length: Tensor | int, end_id: int
    ) -> Tensor:
        """Force tokens in log-probabilities `(r, v)`: 0 for the forced token, `LOWEST_SCORE` for all others.

        `max_length` is a number or `(r,)`.
        """
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

    def _penalized(self, log_probabilities: Tensor, history: Tensor, position: Tensor | int) -> Tensor:
        if self.repetition_penalty == 1.0:
            return log_probabilities
        seen = self._seen(history, position, log_probabilities.shape[-1])
        return ops.where(seen, log_probabilities * self.repetition_penalty, log_probabilities)

    def _seen(self, history: Tensor, position: Tensor | int, vocabulary_size: int) -> Tensor:
        """Return which tokens were generated already, bool `(r, v)`."""
        seen = _repeated_ngrams(history, position, 1, vocabulary_size)
        if self.seen_token_ids:
            _check_vocabulary("seen_token_ids", self.seen_token_ids, vocabulary_size)
            seen = ops.logical_or(seen, _banned_tokens(self.seen_token_ids, vocabulary_size))
        return seen

    def _forbidden(
        self, vocabulary_size: int, history: Tensor, position: Tensor | int, shortest: Tensor, end_id: int
    ) -> list[Tensor]:
        """Return a mask for each rule, True for forbidden tokens, bool `(r, v)` or `(1, v)`."""
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
        if self.no_repeat_ngram_size == 1:
            masks.append(self._seen(history, position, vocabulary_size))
        elif self.no_repeat_ngram_size:
            masks.append(_repeated_ngrams(history, position, self.no_repeat_ngram_size, vocabulary_size))
        # Every hypothesis has at least the end token, so a minimum of 1 always holds.
        if self.min_length_ratio or self.min_length > 1:
            too_short = (shortest[:, None] if self.min_length_ratio else self.min_length) > position + 1
            is_end = ops.equal(ops.arange(vocabulary_size, dtype="int32"), end_id)
            masks.append(ops.logical_and(too_short, is_end[None, :]))
        return masks


NO_CONSTRAINTS = Constraints()


def _checked_prefixes(prefix_ids: Tensor | None) -> Tensor:
    """Return prefixes as int32, or `()` if there are none."""
    if prefix_ids is None:
        return ()
    if len(prefix_ids.shape) != 2 or prefix_ids.shape[1] is None:
        raise ValueError(
            "`prefix_ids` must have the shape (b, p), p a known number. "
            f"Received: shape={tuple(prefix_ids.shape)}."
        )
    return ops.cast(prefix_ids, "int32") if prefix_ids.shape[1] else ()


def _keep_only(log_probabilities: Tensor, token_ids: Tensor | int) -> Tensor:
    """Forbid every token of `(r, v)` except `token_ids`, `(r, 1)` or one id for all rows."""
    is_kept = ops.equal(ops.arange(log_probabilities.shape[-1], dtype="int32"), token_ids)
    return ops.where(is_kept, ops.maximum(log_probabilities, FORCED_LOG_PROBABILITY), LOWEST_SCORE)


def _forbid(log_probabilities: Tensor, forbidden: Tensor, end_id: int) -> Tensor:
    """Forbid tokens. A row with no allowed token left may end."""
    allowed = ops.where(forbidden, LOWEST_SCORE, log_probabilities)
    has_choice = ops.any(_is_possible(allowed), axis=-1, keepdims=True)  # (r, 1)
    return ops.where(has_choice, allowed, _keep_only(log_probabilities, end_id))


def _force_prefix(
    log_probabilities: Tensor, allowed: Tensor, prefix_ids: Tensor, position: Tensor | int, pad_id: int
) -> Tensor:
    """Allow only the prefix's token in rows whose prefix covers this position."""
    position, length = ops.cast(position, "int32"), prefix_ids.shape[1]
    token_ids = ops.take(prefix_ids, ops.clip(position, 0, length - 1), axis=1)[:, None]
    in_prefix = ops.logical_and(position >= 0, position < length)
    is_forced = ops.logical_and(in_prefix, ops.not_equal(token_ids, pad_id))
    # The forced token keeps the model's log-probability, so that the score of a hypothesis with its prefix is
    # the model's, regardless of the rules.
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


def _completed_sequences(
    history: Tensor, position: Tensor | int, sequences: tuple[tuple[int, ...], ...], vocabulary_size: int
) -> Tensor:
    """Return which tokens would complete one of the sequences, bool `(r, v)`."""
    history = ops.reshape(ops.cast(history, "int32"), (-1, ops.shape(history)[-1]))
    position, last = ops.cast(position, "int32"), [sequence[-1] for sequence in sequences]
    completed = ops.ones((ops.shape(history)[0], len(sequences)), "bool")
    for back in range(1, max(map(len, sequences))):
        # The token that each sequence has at this distance from its end; -1 (always fits) if it is shorter.
        wanted = np.array([each[-1 - back] if len(each) > back else -1 for each in sequences], "int32")
        before = ops.take(history, ops.maximum(position - back, 0), axis=1)[:, None]  # (r, 1)
        fits = ops.logical_and(position >= back, ops.equal(before, wanted[None, :]))
        completed = ops.logical_and(completed, ops.logical_or(fits, wanted[None, :] < 0))
    return _contained_ids(
        ops.where(completed, np.array(last, "int32")[None, :], vocabulary_size), vocabulary_size
    )


def _repeated_ngrams(history: Tensor, position: Tensor | int, size: int, vocabulary_size: int) -> Tensor:
    """Return which tokens would complete an n-gram that the row already contains, bool `(r, v)`."""
    # Windows that start near the end extend past it; they are never complete.
    num_windows = ops.shape(history)[-1]
    history = ops.reshape(ops.cast(history, "int32"), (-1, num_windows))
    position = ops.cast(position, "int32")
    history = ops.pad(history, ((0, 0), (0, size - 1)))
    last = ops.arange(num_windows, dtype="int32") + size - 1  # where the n-gram of each window ends
    repeats = ops.broadcast_to(last < position, ops.shape(history[:, :num_windows]))
    for offset in range(size - 1):
        # Clipping changes nothing: before there are enough tokens, no window is complete.
        current = ops.take(history, ops.maximum(position - size + 1 + offset, 0), axis=1)  # (r,)
        same = ops.equal(history[:, offset : offset + num_windows], current[:, None])
        repeats = ops.logical_and(repeats, same)
    return _contained_ids(ops.where(repeats, history[:, size - 1 :], vocabulary_size), vocabulary_size)


def _contained_ids(columns: Tensor, vocabulary_size: int) -> Tensor:
    """Return which ids each row of `(r, any)` contains, bool `(r, v)`; `vocabulary_size` means no id."""
    # That value becomes an extra last column, which is cut off.
    num_rows = ops.shape(columns)[0]
    rows = ops.broadcast_to(ops.arange(num_rows, dtype="int32")[:, None], ops.shape(columns))
    indices = ops.reshape(ops.stack([rows, columns], axis=-1), (-1, 2))
    nothing = ops.zeros((num_rows, vocabulary_size + 1), "float32")
    ones = ops.ones_like(indices[:, 0], dtype="float32")
    return ops.scatter_update(nothing, indices, ones)[:, :vocabulary_size] > 0
