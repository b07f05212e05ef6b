"""Edit distance, exact match and token error rate."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias

from keras_transformer._arguments import check_several

# One reference for each hypothesis, or several that all count as right.
References: TypeAlias = Sequence[str | Sequence[str]]


def _edit_distance(hypothesis: Sequence[object], reference: Sequence[object]) -> int:
    """Return the number of insertions, deletions and substitutions (Levenshtein 1966)."""
    # One row of the table: distances between the hypothesis so far and each prefix of the reference.
    distances = list(range(len(reference) + 1))
    for row, item in enumerate(hypothesis, start=1):
        above, distances = distances, [row]
        for column, wanted in enumerate(reference):
            substituted = above[column] + (item != wanted)
            distances.append(min(substituted, above[column + 1] + 1, distances[column] + 1))
    return distances[-1]


def _exact_match(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return the fraction of hypotheses that equal one of their references, including case and spaces."""
    pairs = zip(hypotheses, references, strict=True)
    return sum(hypothesis in rights for hypothesis, rights in pairs) / len(hypotheses)


def _token_error_rate(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    split: Callable[[str], Sequence[str]] = str.split,
) -> float:
    """Return the edits to the closest references divided by their length, both summed over all hypotheses."""
    # Summed before the division, so that long hypotheses weigh more. If several references are equally close,
    # the first counts.
    fewest = itemgetter(0)
    closest = [
        min(((_edit_distance(split(text), split(right)), len(split(right))) for right in rights), key=fewest)
        for text, rights in zip(hypotheses, references, strict=True)
    ]
    edits, length = map(sum, zip(*closest, strict=True))
    if not length:
        raise ValueError(
            "`references` must have at least one token. "
            f"Received: {len(hypotheses)} items whose closest references are empty."
        )
    return edits / length


def _checked_references(hypotheses: Sequence[str], references: References) -> list[tuple[str, ...]]:
    """Validate the references and return those of each hypothesis as a tuple."""
    for name, texts in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(texts, str):
            raise TypeError(f"`{name}` must be a list of strings. Received one string: {texts[:50]!r}.")
        if not (hasattr(texts, "__len__") and hasattr(texts, "__getitem__")) or isinstance(texts, Mapping):
            raise TypeError(f"`{name}` must be a list of strings. Received: {texts!r:.200}.")
    if len(hypotheses) != len(references):
        raise ValueError(
            "`references` must have one item for each hypothesis. "
            f"Received: {len(references)} references for {len(hypotheses)} hypotheses."
        )
    # `len`, since the truth value of an array is ambiguous.
    if not len(hypotheses):
        raise ValueError("`hypotheses` must have at least one item. Received: 0 hypotheses.")
    check_several((str, bytes, list, tuple), references=references)
    tuples = [(item,) if isinstance(item, str) else tuple(item) for item in references]
    if () in tuples:
        raise ValueError(
            "Each hypothesis must have at least one reference. "
            f"Received: references[{tuples.index(())}]={references[tuples.index(())]!r}."
        )
    for name, items in (("hypotheses", [tuple(hypotheses)]), ("references", tuples)):
        wrong = [text for item in items for text in item if not isinstance(text, str)]
        if wrong:
            raise TypeError(
                f"`{name}` must be strings; bytes, as TensorFlow has them, become one by `.decode()`. "
                f"Received: {wrong[0]!r} of type {type(wrong[0]).__name__}."
            )
    return tuples
