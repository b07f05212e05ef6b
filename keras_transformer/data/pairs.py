"""What a sentence pair is, and which pairs are worth keeping."""

import logging
from collections.abc import Sequence
from typing import TypeAlias

from keras_transformer.errors import InputError

Pair: TypeAlias = tuple[str, str]

MANY_DROPPED = 0.05
"""A share of the pairs that is worth a question."""

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
    kept = [pair for pair in pairs if has_text(pair)]
    if not kept:
        raise InputError(f"No pair of {origin} has text on both sides. Received: {len(pairs)} pairs.")
    report_empty(len(pairs) - len(kept), len(pairs), origin)
    return kept


def has_text(pair: Pair) -> bool:
    """Say whether both sides have more than white space."""
    source, target = pair
    return bool(source.strip() and target.strip())


def report_empty(num_dropped: int, num_pairs: int, origin: str) -> None:
    """Logs how many pairs were left out because a side had no text.

    Args:
        num_dropped: of them.
        num_pairs: those that were kept included.
        origin: where the pairs come from.
    """
    if not num_dropped:
        return
    share = num_dropped / num_pairs
    hint = " That is more than 5 %: do the two sides belong together?" if share > MANY_DROPPED else ""
    message = "Dropped %d of %d pairs (%.1f %%) of %s: empty.%s"
    _LOGGER.warning(message, num_dropped, num_pairs, 100 * share, origin, hint)
