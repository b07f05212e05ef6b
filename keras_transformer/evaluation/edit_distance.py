"""The least number of edits that turn one sequence into another."""

from collections.abc import Sequence


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
