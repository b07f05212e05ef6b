"""The share of answers that are right to the last character."""

from collections.abc import Sequence

from keras_transformer.evaluation.references import References, references_of_each


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
