"""Lists of sentence pairs: filtering, validation splits, and mixtures of corpora."""

import logging
import math
import random
from collections import Counter
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from keras_transformer._arguments import as_pairs, check_kind, check_number, check_several
from keras_transformer.errors import InputError
from keras_transformer.types import LabelledText, Pair, TaggedText

_MANY_DROPPED = 0.05

_Pair = TypeVar("_Pair", Pair, LabelledText, TaggedText)

_LOGGER = logging.getLogger(__name__)


def split_pairs(
    pairs: Sequence[_Pair],
    *,
    validation_fraction: float | None = None,
    validation_count: int | None = None,
    seed: int = 0,
) -> tuple[list[_Pair], list[_Pair]]:
    """Split pairs at random into training and validation pairs.

    Pairs with the same source are kept together: corpora repeat sentences, and a validation sentence seen in
    training measures memorization. So slightly more pairs than requested may be held out.

    Args:
        pairs: Pairs of source and target text, or labelled or tagged texts.
        validation_fraction: Fraction of the pairs to hold out, between 0 and 1. Pass this or
            `validation_count`.
        validation_count: Number of pairs to hold out. Pass this or `validation_fraction`.
        seed: Random seed.

    Returns:
        Training and validation pairs, both in the order of `pairs`.

    Raises:
        InputError: If no training pair would be left.
        ValueError: If not exactly one of the sizes is given, or it is out of range.
    """
    # Examples with several labels or tags have a sequence as second element.
    has_labels = isinstance(pairs, list | tuple) and all(
        isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[1], tuple | list)
        for pair in pairs
    )
    several: list[Any] = [*pairs] if has_labels else as_pairs(pairs=pairs)
    check_number(whole=True, seed=seed)
    fraction, count = validation_fraction, validation_count
    check_kind(Real, None, validation_fraction=fraction)
    check_kind(Integral, None, validation_count=count)
    if (fraction is None) == (count is None):
        raise ValueError(
            "Give one of `validation_fraction` and `validation_count`. "
            f"Received: validation_fraction={fraction}, validation_count={count}."
        )
    if fraction is not None and not 0 < fraction < 1:
        raise ValueError(
            f"`validation_fraction` must be between 0 and 1. Received: validation_fraction={fraction}."
        )
    if count is not None and count < 1:
        raise ValueError(f"`validation_count` must be at least 1. Received: validation_count={count}.")
    count = count or max(1, round(len(several) * (fraction or 0.0)))
    sources = [tuple(source) if isinstance(source, list) else source for source, _ in several]
    held_out = _choose_sources(sources, count, seed)
    train = [pair for pair, source in zip(several, sources, strict=True) if source not in held_out]
    validation = [pair for pair, source in zip(several, sources, strict=True) if source in held_out]
    if not train:
        raise InputError(
            f"No pair is left to train on. Received: {len(several)} pairs, {count} of them for validation, "
            "with which others of the same source stay together."
        )
    return train, validation


def _choose_sources(sources: list[Any], count: int, seed: int) -> set[Any]:
    """Draw source texts until they cover `count` pairs; skip those with more than `count` pairs."""
    repeats = Counter(sources)  # unlike a set, it keeps the order
    order = list(repeats)
    random.Random(seed).shuffle(order)
    chosen: set[Any] = set()
    left = count
    for source in order:
        if left > 0 and repeats[source] <= count:
            chosen.add(source)
            left -= repeats[source]
    return chosen or {*sorted(order, key=repeats.__getitem__)[:1]}


def mix_pairs(corpora: Sequence[tuple[Sequence[Pair], float]], *, seed: int = 0) -> list[Pair]:
    """Concatenate corpora, each repeated by its weight.

    With a weight of 2 every pair occurs twice, with 0.5 a random half of the pairs occurs, and with 2.5 every
    pair occurs twice and a random half once more. Use the resulting list like a single corpus.

    Args:
        corpora: Tuples `(pairs, weight)`.
        seed: Random seed for fractional weights.

    Returns:
        The pairs, one corpus after the other.

    Raises:
        ValueError: If a weight is negative or not finite.

    Example:
        >>> mix_pairs([([("a", "b")], 2), ([("c", "d"), ("e", "f")], 1)])
        [('a', 'b'), ('a', 'b'), ('c', 'd'), ('e', 'f')]
    """
    mixed: list[Pair] = []
    check_several(tuple, corpora=corpora)
    check_number(whole=True, seed=seed)
    for number, (pairs, weight) in enumerate(corpora):
        check_kind(Real, weight=weight)
        if not (math.isfinite(weight) and weight >= 0):
            raise ValueError(f"A weight must be at least 0 and finite. Received: weight={weight}.")
        whole = int(weight)
        mixed += list(pairs) * whole
        num_drawn = round((weight - whole) * len(pairs))
        drawn = np.random.default_rng((seed, number)).permutation(len(pairs))[:num_drawn]
        mixed += [pairs[index] for index in sorted(drawn)]
    return mixed


def _has_text(pair: Pair) -> bool:
    """Return whether both sides contain more than white space."""
    source, target = pair
    return bool(source.strip() and target.strip())


def _drop_empty_pairs(pairs: Sequence[Pair], origin: str) -> list[Pair]:
    """Drop pairs with an empty side, and log how many; raise InputError if no pair is left."""
    # In parallel corpora, an empty line is an untranslated sentence. Training on it teaches the model to
    # output nothing, or to invent text.
    kept = [pair for pair in pairs if _has_text(pair)]
    if not kept:
        raise InputError(f"No pair of {origin} has text on both sides. Received: {len(pairs)} pairs.")
    _report_empty(len(pairs) - len(kept), len(pairs), origin)
    return kept


def _report_empty(num_dropped: int, num_pairs: int, origin: str) -> None:
    if num_dropped:
        _log_dropped(num_dropped, num_pairs, f"of {origin}: empty", "do the two sides belong together")


def _log_dropped(num_dropped: int, num_pairs: int, cause: str, question: str) -> None:
    """Log how many pairs were dropped and why, with a question if the share is large."""
    share = num_dropped / num_pairs
    hint = f" That is more than 5 %: {question}?" if share > _MANY_DROPPED else ""
    message = "Dropped %d of %d pairs (%.1f %%) %s.%s"
    _LOGGER.warning(message, num_dropped, num_pairs, 100 * share, cause, hint)
