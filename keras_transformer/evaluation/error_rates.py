"""Error rates with one or several references for each answer."""

from collections.abc import Callable, Sequence

from keras_transformer.evaluation.edit_distance import edit_distance
from keras_transformer.evaluation.exact_match import exact_match
from keras_transformer.evaluation.references import References, references_of_each


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
