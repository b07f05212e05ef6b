"""What a sentence pair is, and which pairs are worth keeping."""

import logging
from collections.abc import Sequence
from typing import TypeAlias

from keras_transformer.errors import InputError

Pair: TypeAlias = tuple[str, str]

_LOGGER = logging.getLogger(__name__)


def check_pairs(pairs: Sequence[object]) -> None:
    """Refuses what is no pair of texts, such as the NaN that an empty cell of a table becomes.

    Args:
        pairs: to be two strings each.

    Raises:
        TypeError: one is not.
    """
    for number, pair in enumerate(pairs):
        texts = pair if isinstance(pair, tuple | list) else ()
        if len(texts) != 2 or not all(isinstance(text, str | bytes) for text in texts):
            raise TypeError(f"Each pair must be two strings. Received: pairs[{number}]={pair!r}.")


def drop_empty_pairs(pairs: Sequence[Pair], origin: str) -> list[Pair]:
    """Leaves out pairs of which one side has no text, and logs how many.

    Aligned corpora mark an untranslated sentence with an empty line. Trained on, such a
    pair teaches the model to answer nothing, or to invent.

    Args:
        pairs: source and target texts.
        origin: where the pairs come from, for messages.

    Returns:
        the other pairs, in their order.

    Raises:
        InputError: no pair is left.
    """
    kept = [pair for pair in pairs if pair[0].strip() and pair[1].strip()]
    if not kept:
        raise InputError(f"No pair of {origin} has text on both sides. Received: {len(pairs)} pairs.")
    if len(kept) < len(pairs):
        _LOGGER.warning("Dropped %d of %d pairs of %s: empty.", len(pairs) - len(kept), len(pairs), origin)
    return kept
