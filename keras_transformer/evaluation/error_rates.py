"""Error rates with one or several references for each answer."""

from collections.abc import Callable, Sequence
from typing import TypeAlias


def edit_distance(hypothesis: Sequence[object], reference: Sequence[object]) -> int:
    """Count the insertions, deletions and substitutions between two sequences (Levenshtein 1966).

    The sequences hold anything that can be compared: characters of a string, words, token ids. Time is
    the product of both lengths, memory the length of `reference`.

    Args:
        hypothesis: the answer.
        reference: what it should be.

    Returns:
        The number of edits, 0 for equal sequences and at most the greater length.

    >>> edit_distance("kitten", "sitting")
    3
    >>> edit_distance(["k", "ae", "t"], ["k", "ah", "t", "s"])
    2
    """
    distances = list(range(len(reference) + 1))
    for row, item in enumerate(hypothesis, start=1):
        distances = _next_row(distances, item, reference, row)
    return distances[-1]


def _next_row(above: list[int], item: object, reference: Sequence[object], row: int) -> list[int]:
    """Return the distances of one more item of the hypothesis to each prefix of the reference."""
    distances = [row]
    for column, wanted in enumerate(reference):
        substituted = above[column] + (item != wanted)
        distances.append(min(substituted, above[column + 1] + 1, distances[column] + 1))
    return distances


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


def exact_match(hypotheses: Sequence[str], references: References) -> float:
    """Return the share of answers that equal one of their references.

    Strings are compared as they are: case and spaces count.

    Args:
        hypotheses: the answers.
        references: for each answer one right string, or several.

    Returns:
        A number from 0 to 1 (all right).

    Raises:
        ValueError: there are no hypotheses, or not as many references.

    >>> exact_match(["2023-03-03", "2023-03-04"], ["2023-03-03", "2023-03-05"])
    0.5
    """
    items = zip(hypotheses, references_of_each(hypotheses, references), strict=True)
    return sum(hypothesis in right for hypothesis, right in items) / len(hypotheses)


def word_error_rate(hypotheses: Sequence[str], references: References) -> float:
    """Return the share of answers that equal none of their references.

    This is the WER of pronunciation: each item is one word of the dictionary, and its phones are right
    or wrong as a whole. It is not the WER of speech recognition, which counts edits between the words
    of a sentence: that is `token_error_rate`.

    Args:
        hypotheses: the answers, for example phones with spaces between them.
        references: for each answer one right string, or several.

    Returns:
        A number from 0 (all right) to 1; it is `1 - exact_match`.

    Raises:
        ValueError: there are no hypotheses, or not as many references.

    >>> word_error_rate(["t ah m ey t ow", "k ae t"], [["t ah m aa t ow", "t ah m ey t ow"], "k ah t"])
    0.5
    """
    return 1.0 - exact_match(hypotheses, references)


def token_error_rate(
    hypotheses: Sequence[str],
    references: References,
    *,
    split: Callable[[str], Sequence[str]] = str.split,
) -> float:
    """Return the edits from each answer to its closest reference, divided by the references' length.

    Edits and lengths are summed over all answers before the division, so that a long answer counts more
    than a short one. With phones this is PER, with the words of a sentence the WER of speech
    recognition. The closest reference is the one with the fewest edits, the first of them where
    several have as few.

    Args:
        hypotheses: the answers.
        references: for each answer one right string, or several.
        split: makes tokens of a string; by default what stands between white space.

    Returns:
        A number from 0 (all right); above 1 where answers are much too long.

    Raises:
        ValueError: there are no hypotheses, not as many references, or all references are empty.

    >>> token_error_rate(["k ae t", "d ao"], ["k ae t", ["d ao g", "d aa g z"]])
    0.16666666666666666
    """
    edits, length = 0, 0
    for hypothesis, candidates in zip(hypotheses, references_of_each(hypotheses, references), strict=True):
        closest_edits, closest_length = _closest(split(hypothesis), [split(text) for text in candidates])
        edits += closest_edits
        length += closest_length
    if not length:
        raise ValueError(
            "`references` must have at least one token. "
            f"Received: {len(hypotheses)} items whose closest references are empty."
        )
    return edits / length


def character_error_rate(hypotheses: Sequence[str], references: References) -> float:
    """Return `token_error_rate` with characters as tokens, white space included.

    Args:
        hypotheses: the answers.
        references: for each answer one right string, or several.

    Returns:
        A number from 0 (all right); above 1 where answers are much too long.

    Raises:
        ValueError: there are no hypotheses, not as many references, or all references are empty.

    >>> character_error_rate(["2023-03-04"], ["2023-03-03"])
    0.1
    """
    return token_error_rate(hypotheses, references, split=list)


def _closest(hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[int, int]:
    """Return the edits to the closest reference and its length."""
    distances = [edit_distance(hypothesis, reference) for reference in references]
    closest = distances.index(min(distances))
    return distances[closest], len(references[closest])
