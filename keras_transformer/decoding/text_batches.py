"""Texts of any number in batches of similar length, and the answers in the order of the texts."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from keras_transformer.decoding.translation import TruncationWarning

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Progress = Callable[[int], None]


class BatchAnswers(NamedTuple):
    """What becomes of one batch."""

    answers: Sequence[Any]
    """One for each item."""
    num_cut: int = 0
    """Items that were too long, and of which the end was not read."""
    limits: str = ""
    """What they were longer than, each limit by its name."""


def in_batches(
    items: Sequence[Item],
    answer: Callable[[list[Item], list[int]], BatchAnswers],
    length: Callable[[Item], int],
    batch_size: int,
    progress: Progress | None,
) -> list[Any]:
    """Answer items, those of similar length together.

    Args:
        items: in any order.
        answer: answers one batch; it gets the items and the place of each among all.
        length: says how long an item is.
        batch_size: the most items of a batch.
        progress: called after each batch with the number of items in it.

    Returns:
        An answer for each item, in the same order.

    Raises:
        ValueError: a batch size not above zero.

    Warns:
        TruncationWarning: once, with the number of items that were cut and the limits.
    """
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be above zero. Received: batch_size={batch_size}.")
    answers: list[Any] = [None] * len(items)
    num_cut, limits = 0, ""
    for rows in _batches([length(item) for item in items], batch_size):
        batch = answer([items[row] for row in rows], rows)
        num_cut, limits = num_cut + batch.num_cut, batch.limits
        for row, one in zip(rows, batch.answers, strict=True):
            answers[row] = one
        if progress is not None:
            progress(len(rows))
    if num_cut:
        message = f"{num_cut} of {len(items)} were longer than the translator's limits"
        message += f" ({limits}) and were cut off." if limits else " and were cut off."
        warnings.warn(message, TruncationWarning, stacklevel=3)
    return answers


def check_texts(texts: Iterable[str], name: str = "texts") -> list[str]:
    """Take texts from any iterable, and refuse what is none.

    Args:
        texts: strings.
        name: of the argument, for the message.

    Returns:
        The strings as a list.

    Raises:
        TypeError: a single string instead of several, or something that holds or is no strings.
    """
    try:
        rows = None if isinstance(texts, str | bytes) else iter(texts)
    except TypeError:
        rows = None
    if rows is None:
        raise TypeError(f"`{name}` must be several strings, such as a list. Received: {name}={texts!r}.")
    texts = list(rows)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"`{name}` must hold strings. Received: {name}[{row}]={text!r}.")
    return texts


def _batches(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Give the rows of each batch, the longest first, so that a lack of memory shows at once."""
    rows = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    for start in range(0, len(rows), batch_size):
        yield rows[start : start + batch_size]
