"""A held-out part of the training pairs, for corpora that come without one."""

import random
from collections.abc import Sequence

from keras_transformer.data.pairs import Pair
from keras_transformer.errors import InputError


def split_pairs(
    pairs: Sequence[Pair],
    *,
    validation_fraction: float | None = None,
    validation_count: int | None = None,
    seed: int = 0,
) -> tuple[list[Pair], list[Pair]]:
    """Splits pairs at random into training and validation pairs.

    Pairs with the same source text stay on the same side: corpora repeat sentences, and a
    validation sentence that was trained on measures memory. So a few more pairs than asked for may be
    held out.

    Args:
        pairs: source and target texts.
        validation_fraction: part of the pairs to hold out, between 0 and 1; or
        validation_count: number of pairs to hold out. Give one of the two.
        seed: the same seed and pairs give the same split.

    Returns:
        training and validation pairs, both in the order of `pairs`.

    Raises:
        ValueError: both or none of the sizes are given, or one is out of range.
        InputError: nothing would be left to train on.
    """
    count = _validation_count(len(pairs), validation_fraction, validation_count)
    held_out = _choose_sources([source for source, _ in pairs], count, seed)
    train = [pair for pair in pairs if pair[0] not in held_out]
    validation = [pair for pair in pairs if pair[0] in held_out]
    if not train:
        raise InputError(
            f"No pair is left to train on. Received: {len(pairs)} pairs, {count} of them for validation."
        )
    return train, validation


def _validation_count(num_pairs: int, fraction: float | None, count: int | None) -> int:
    """Turns either way to give the size into a number of pairs, at least 1."""
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
    return count or max(1, round(num_pairs * (fraction or 0.0)))


def _choose_sources(sources: list[str], count: int, seed: int) -> set[str]:
    """Draws source texts until they cover `count` pairs, none of which is of more pairs than that alone."""
    repeats = dict.fromkeys(sources, 0)  # keeps the order, which a set of strings does not
    for source in sources:
        repeats[source] += 1
    order = list(repeats)
    random.Random(seed).shuffle(order)
    chosen: set[str] = set()
    left = count
    for source in order:
        if left <= 0:
            break
        if repeats[source] <= count:
            chosen.add(source)
            left -= repeats[source]
    if not chosen and order:
        chosen = {min(order, key=repeats.__getitem__)}
    return chosen
