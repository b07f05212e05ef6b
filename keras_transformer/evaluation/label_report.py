"""Evaluation of labels and tags: accuracy, precision, recall, F1, confusion matrix."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from keras_transformer._arguments import check_several
from keras_transformer.data import tag_spans
from keras_transformer.evaluation.report import EvaluationReport, Score

# One label for each text, or a list of several.
Labels: TypeAlias = Sequence[str | Sequence[str]]

_WIDEST = 12  # maximum number of columns of a printed confusion matrix


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelScore:
    """Precision, recall and F1 of one label or one kind of span."""

    precision: float
    """Fraction of the predictions of this label that are right; 0 if there are none."""
    recall: float
    """Fraction of the references with this label that were predicted; 0 if there are none."""
    f1: float
    """Harmonic mean of precision and recall."""
    support: int
    """Number of references with this label."""

    @classmethod
    def of(cls, num_right: int, num_predicted: int, num_true: int) -> "LabelScore":
        """Return the scores computed from counts."""
        return cls(
            precision=num_right / num_predicted if num_predicted else 0.0,
            recall=num_right / num_true if num_true else 0.0,
            f1=2 * num_right / (num_predicted + num_true) if num_predicted + num_true else 0.0,
            support=num_true,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelReport(EvaluationReport):
    """Scores of labels or tags. `print` shows a table; `report["macro_f1"]` is one value."""

    labels: Mapping[str, LabelScore]
    """Scores of each label, or of each kind of span."""
    confusion: np.ndarray | None = None
    """Confusion matrix, int64 `(c, c)`: number of texts by reference label (row) and predicted label
    (column), in the order of `labels`. None if texts have several labels."""

    @property
    def warning(self) -> str:
        """Likely problem and what to try, if all predictions, but not all references, are one label."""
        if self.confusion is None or self.num_items < 2:
            return ""
        given = np.flatnonzero(self.confusion.sum(axis=0))
        if len(given) > 1 or np.count_nonzero(self.confusion.sum(axis=1)) < 2:
            return ""
        return (
            f"All {self.num_items:,} outputs are {[*self.labels][given[0]]!r}. Try more epochs, smaller "
            "batches, which make more updates, or class weights."
        )

    def to_dict(self) -> dict[str, object]:
        """Return the report as plain values, for JSON."""
        confusion = None if self.confusion is None else self.confusion.tolist()
        return {**super().to_dict(), "confusion": confusion}

    def __str__(self) -> str:
        width = max(map(len, ["label", *self.labels]))
        lines = [f"{'label':<{width}}  precision  recall       F1  texts"]
        lines += [
            f"{label:<{width}}  {100 * each.precision:7.1f} %  {100 * each.recall:4.1f} %  "
            f"{100 * each.f1:5.1f} %  {each.support:5,}"
            for label, each in self.labels.items()
        ]
        return "\n".join([super().__str__(), "", *lines, *self._confusion_lines()])

    def _confusion_lines(self) -> list[str]:
        if self.confusion is None or len(self.labels) > _WIDEST:
            return []
        rows = [["is \\ called", *self.labels]]
        rows += [
            [name, *map(str, row)] for name, row in zip(self.labels, self.confusion.tolist(), strict=True)
        ]
        first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
        lines = (zip(row[1:], widths, strict=True) for row in rows)
        cells = ("  ".join(f"{cell:>{width}}" for cell, width in line) for line in lines)
        return ["", *(f"{row[0]:<{first}}  {line}" for row, line in zip(rows, cells, strict=True))]


def evaluate_labels(
    predicted: Labels, references: Labels, labels: Sequence[str] | None = None
) -> LabelReport:
    """Compare predicted labels with the right ones.

    - `accuracy`: the fraction of texts whose label, or whose set of labels, is right.
    - `macro_f1`: the unweighted mean of the F1 of all labels.
    - `micro_f1`: the F1 over all labels together, only for texts with several labels.

    Args:
        predicted: Predicted label of each text, or a list of labels.
        references: Right label of each text, or a list of labels.
        labels: Names of the labels, in the order of the report; labels not named here follow. Defaults to
            all that occur, sorted.

    Returns:
        The report, with the scores of each label and, for single labels, the confusion matrix.

    Raises:
        TypeError: If labels are not strings or lists of strings, or single labels are compared with lists.
        ValueError: If there are no texts, or predictions and references differ in number.

    Example:
        >>> report = evaluate_labels(["ham", "spam", "ham"], ["ham", "spam", "spam"])
        >>> report["accuracy"], report.labels["spam"].recall, report.confusion.tolist()
        (0.6666666666666666, 0.5, [[1, 0], [1, 1]])
    """
    _check_sizes(predicted, references)
    several = {not isinstance(each, str) for each in (*predicted, *references)}
    if len(several) > 1:
        raise TypeError(
            "`predicted` and `references` must both hold strings, or both lists of strings. "
            f"Received: {predicted[0]!r:.100}, {references[0]!r:.100}."
        )
    found, right = (
        [{each} if isinstance(each, str) else {*each} for each in side] for side in (predicted, references)
    )
    given = sorted(set().union(*found, *right))
    names = [*dict.fromkeys([*(labels or ()), *given])]
    by_label = {
        name: LabelScore.of(
            sum(name in one and name in other for one, other in zip(found, right, strict=True)),
            sum(name in each for each in found),
            sum(name in each for each in right),
        )
        for name in names
    }
    micro = LabelScore.of(
        sum(len(one & other) for one, other in zip(found, right, strict=True)),
        sum(map(len, found)),
        sum(map(len, right)),
    )
    return LabelReport(
        num_items=len(references),
        scores=_fraction_scores(
            accuracy=sum(map(set.__eq__, found, right)) / len(right),
            macro_f1=float(np.mean([each.f1 for each in by_label.values()])) if by_label else 0.0,
            **({"micro_f1": micro.f1} if True in several else {}),
        ),
        labels=by_label,
        confusion=None if True in several else _confusion([*predicted], [*references], names),
    )


def _confusion(predicted: Sequence[Any], references: Sequence[Any], names: Sequence[str]) -> np.ndarray:
    numbers = {name: number for number, name in enumerate(names)}
    confusion = np.zeros((len(names), len(names)), np.int64)
    for one, other in zip(predicted, references, strict=True):
        confusion[numbers[other], numbers[one]] += 1
    return confusion


def evaluate_tags(predicted: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> LabelReport:
    """Compare predicted tags of tokens with the right ones.

    - `span_f1`: the F1 of all spans, whose label and both ends must be right, as in `conlleval` of
      CoNLL-2003. Left out if no tag has a prefix such as `B-`.
    - `token_accuracy`: the fraction of tokens whose tag is right.

    Args:
        predicted: Predicted tags of each text.
        references: Right tags of each text.

    Returns:
        The report, with the scores of each kind of span, or of each tag if there are no spans.

    Raises:
        TypeError: If tags are not lists of strings.
        ValueError: If there are no tokens, or predictions and references differ in number or length.

    Example:
        >>> report = evaluate_tags([["B-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "B-LOC"]])
        >>> report["span_f1"], report.labels["LOC"].f1
        (0.5, 1.0)
    """
    _check_sizes(predicted, references)
    for number, (one, other) in enumerate(zip(predicted, references, strict=True)):
        check_several(str, predicted=one, references=other)
        if len(one) != len(other):
            raise ValueError(
                "A text must have as many tags on both sides. "
                f"Received: predicted[{number}] of {len(one)}, references[{number}] of {len(other)}."
            )
    tags, right_tags = ([tag for tags in side for tag in tags] for side in (predicted, references))
    if not right_tags:
        raise ValueError(
            f"`references` must have at least one tag. Received: {len(references)} texts without."
        )
    found, right = (
        Counter((number, *span) for number, tags in enumerate(side) for span in tag_spans(tags))
        for side in (predicted, references)
    )
    token_accuracy = sum(map(str.__eq__, tags, right_tags)) / len(right_tags)
    if not found and not right:
        report = evaluate_labels(tags, right_tags)
        return dataclasses.replace(
            report, scores=_fraction_scores(token_accuracy=token_accuracy, macro_f1=report["macro_f1"])
        )
    kinds = sorted({kind for _, kind, _, _ in (*found, *right)})
    by_label = {
        kind: LabelScore.of(
            *(sum(span[1] == kind for span in spans) for spans in (found & right, found, right))
        )
        for kind in kinds
    }
    total = LabelScore.of((found & right).total(), found.total(), right.total())
    return LabelReport(
        num_items=len(references),
        scores=_fraction_scores(
            span_f1=total.f1,
            span_precision=total.precision,
            span_recall=total.recall,
            macro_f1=float(np.mean([each.f1 for each in by_label.values()])),
            token_accuracy=token_accuracy,
        ),
        labels=by_label,
    )


def _check_sizes(predicted: Sequence[object], references: Sequence[object]) -> None:
    for name, values in (("predicted", predicted), ("references", references)):
        check_several((str, list, tuple), **{name: values})
    if len(predicted) != len(references) or not references:
        raise ValueError(
            "`predicted` and `references` must have an item for each text, at least one. "
            f"Received: {len(predicted)} and {len(references)}."
        )


def _fraction_scores(**values: float) -> dict[str, Score]:
    return {
        name: Score(name=name.replace("_", " ").replace("f1", "F1"), value=float(value), is_fraction=True)
        for name, value in values.items()
    }
