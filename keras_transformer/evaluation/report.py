"""Many measures of the same answers, as one table."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from keras_transformer.evaluation.error_rates import (
    References,
    character_error_rate,
    exact_match,
    token_error_rate,
    word_error_rate,
)
from keras_transformer.evaluation.translation_quality import Score, bleu, chrf

_RATES: Mapping[str, Callable[[Sequence[str], References], float]] = {
    "exact_match": exact_match,
    "word_error_rate": word_error_rate,
    "token_error_rate": token_error_rate,
    "character_error_rate": character_error_rate,
}

#: What `evaluate` can measure.
METRICS: tuple[str, ...] = ("bleu", "chrf", *_RATES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationReport:
    """Scores of the same answers; `print` shows them as a table."""

    num_items: int
    """How many answers were compared."""

    scores: Mapping[str, Score]
    """The score of each measured metric, by its name in `METRICS`."""

    def __getitem__(self, metric: str) -> float:
        """Return the number of one metric."""
        return self.scores[metric].value

    def to_dict(self) -> dict[str, object]:
        """Return the report as plain values, for JSON."""
        scores = {metric: dataclasses.asdict(score) for metric, score in self.scores.items()}
        return {"num_items": self.num_items, "scores": scores}

    def __str__(self) -> str:
        rows = [(score.name, score.formatted_value, score.signature) for score in self.scores.values()]
        # Digits stand below digits, with or without a percent sign after them.
        rows = [(name, value if "%" in value else f"{value}  ", note) for name, value, note in rows]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        lines = [f"{name:<{widths[0]}}  {value:>{widths[1]}}  {note}".rstrip() for name, value, note in rows]
        return "\n".join([*lines, f"answers: {self.num_items:,}"])


def evaluate(
    hypotheses: Sequence[str],
    references: References,
    metrics: Sequence[str] = METRICS,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> EvaluationReport:
    """Measure answers against their references.

    Args:
        hypotheses: the answers.
        references: for each answer one right string, or several.
        metrics: names from `METRICS`, in the order of the table.
        tokenize: sacreBLEU's tokenization for BLEU: `"13a"`, or `"none"` for tokenized text.
        lowercase: whether BLEU and chrF ignore case.

    Returns:
        A report with a score for each metric.

    Raises:
        ValueError: there are no hypotheses, not as many references, or a name is unknown.

    >>> print(evaluate(["2023-03-03"], ["2023-03-04"], ["exact_match", "character_error_rate"]))
    exact match            0.00 %
    character error rate  10.00 %
    answers: 1
    """
    unknown = [metric for metric in metrics if metric not in METRICS]
    if unknown or not metrics:
        raise ValueError(f"`metrics` must name some of {', '.join(METRICS)}. Received: {unknown or metrics}.")
    scores = {}
    for metric in metrics:
        if metric == "bleu":
            scores[metric] = bleu(hypotheses, references, tokenize=tokenize, lowercase=lowercase)
        elif metric == "chrf":
            scores[metric] = chrf(hypotheses, references, lowercase=lowercase)
        else:
            scores[metric] = _rate(metric, hypotheses, references)
    return EvaluationReport(num_items=len(hypotheses), scores=scores)


def _rate(metric: str, hypotheses: Sequence[str], references: References) -> Score:
    value = _RATES[metric](hypotheses, references)
    return Score(name=metric.replace("_", " "), value=value, is_fraction=True)
