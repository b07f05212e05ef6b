"""One or several references for each answer, checked in one place."""

from collections.abc import Sequence
from typing import TypeAlias

#: One reference, or all that count as right.
References: TypeAlias = Sequence[str | Sequence[str]]


def references_of_each(hypotheses: Sequence[str], references: References) -> list[tuple[str, ...]]:
    """Return the references of each hypothesis, as a tuple even where there is one.

    Args:
        hypotheses: the answers.
        references: for each answer a string, or several strings.

    Returns:
        As many tuples as hypotheses; none of them is empty.

    Raises:
        TypeError: one string was given where a list of strings is wanted, or something else than strings.
        ValueError: there are no hypotheses, not as many items of references as hypotheses, or an item
            without a reference.
    """
    for name, texts in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(texts, str):
            raise TypeError(f"`{name}` must be a list of strings. Received one string: {texts[:50]!r}.")
    if len(hypotheses) != len(references):
        raise ValueError(
            "`references` must have one item for each hypothesis. "
            f"Received: {len(references)} references for {len(hypotheses)} hypotheses."
        )
    if not len(hypotheses):  # an array has no truth
        raise ValueError("`hypotheses` must have at least one item. Received: 0 hypotheses.")
    tuples = [(item,) if isinstance(item, str) else tuple(item) for item in references]
    if () in tuples:
        raise ValueError(
            "Each hypothesis must have at least one reference. "
            f"Received: references[{tuples.index(())}]={references[tuples.index(())]!r}."
        )
    for name, texts in (("hypotheses", [tuple(hypotheses)]), ("references", tuples)):
        wrong = [text for item in texts for text in item if not isinstance(text, str)]
        if wrong:
            raise TypeError(
                f"`{name}` must be strings; bytes, as TensorFlow has them, become one by `.decode()`. "
                f"Received: {wrong[0]!r} of type {type(wrong[0]).__name__}."
            )
    return tuples
