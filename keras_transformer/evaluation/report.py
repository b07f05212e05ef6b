"""Evaluation of outputs against references: BLEU, chrF, exact match and error rates in one table."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence

from sacrebleu.metrics import BLEU, CHRF

from keras_transformer._arguments import check_choice, check_flags, check_several
from keras_transformer.evaluation.error_rates import (
    References,
    _checked_references,
    _exact_match,
    _token_error_rate,
)

_Measure = Callable[[Sequence[str], Sequence[Sequence[str]]], float]

_RATES: Mapping[str, _Measure] = {
    "exact_match": _exact_match,
    "token_error_rate": _token_error_rate,
    "character_error_rate": functools.partial(_token_error_rate, split=list),
}

METRICS = ("bleu", "chrf", *_RATES)
TOKENIZATIONS = tuple(BLEU.TOKENIZERS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Score:
    """Value of a metric, with the settings needed to reproduce it.

    Example:
        >>> print(Score(name="BLEU", value=41.024, signature="nrefs:1|tok:none"))
        BLEU 41.02 (nrefs:1|tok:none)
        >>> print(Score(name="exact match", value=0.995, is_fraction=True))
        exact match 99.50 %
    """

    name: str
    """Display name of the metric."""
    value: float
    """The value: from 0 to 100 for BLEU and chrF, from 0 to 1 for rates."""
    signature: str = ""
    """Settings in sacreBLEU's notation, or empty."""
    details: str = ""
    """Components of the value, such as the n-gram precisions of BLEU."""
    is_fraction: bool = False
    """Whether `value` is a rate, which is printed as a percentage."""

    def _formatted(self) -> str:
        return f"{100 * self.value:.2f} %" if self.is_fraction else f"{self.value:.2f}"

    def __str__(self) -> str:
        signature = f" ({self.signature})" if self.signature else ""
        return f"{self.name} {self._formatted()}{signature}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationReport:
    """Scores of outputs. `print` shows a table; `report["bleu"]` is one value."""

    num_items: int
    """Number of outputs."""
    scores: Mapping[str, Score]
    """Score of each metric, by name."""
    num_empty: int = 0
    """Number of empty outputs."""

    def __getitem__(self, metric: str) -> float:
        return self.scores[metric].value

    @property
    def warning(self) -> str:
        """Likely problem and what to try, if all outputs are wrong or empty; otherwise empty."""
        # Long sentences rarely equal their references, so BLEU decides if it was computed.
        is_wrong = "exact_match" in self.scores and not self["exact_match"]
        is_wrong = is_wrong and not ("bleu" in self.scores and self["bleu"] >= 1)
        fault = "empty" if self.num_empty == self.num_items else "wrong"
        if not is_wrong and fault == "wrong":
            return ""
        return (
            f"All {self.num_items:,} outputs are {fault}. Try more epochs, smaller batches, which make more "
            "updates, or more pairs; the curve of the loss shows whether it still falls."
        )

    def to_dict(self) -> dict[str, object]:
        """Return the report as plain values, for JSON."""
        return {**dataclasses.asdict(self), "warning": self.warning}

    def __str__(self) -> str:
        rows = [(score.name, score._formatted(), score.signature) for score in self.scores.values()]
        # Align the digits, with or without a percent sign after them.
        rows = [(name, value if "%" in value else f"{value}  ", note) for name, value, note in rows]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        lines = [f"{name:<{widths[0]}}  {value:>{widths[1]}}  {note}".rstrip() for name, value, note in rows]
        empty = f", {self.num_empty:,} of them empty" if self.num_empty else ""
        return "\n".join([*lines, f"outputs: {self.num_items:,}{empty}"])


def evaluate(
    hypotheses: Sequence[str],
    references: References,
    metrics: Sequence[str] | None = None,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> EvaluationReport:
    """Score hypotheses against their references.

    - `bleu`, `chrf`: corpus BLEU (Papineni et al. 2002) and chrF (Popović 2015), from 0 to 100, as
      `sacrebleu` computes them.
    - `exact_match`: the fraction of hypotheses that equal one of their references.
    - `token_error_rate`: the number of edits to the closest references, divided by their length. Tokens are
      separated by white space. If they are phones, this is the phone error rate (PER); if they are words,
      the WER of speech recognition.
    - `character_error_rate`: the same for characters, including white space.

    Args:
        hypotheses: Outputs of a model, as strings.
        references: For each hypothesis one right string, or several.
        metrics: Names of the metrics above, in the order in which the report shows them. Defaults to all.
        tokenize: sacreBLEU's tokenization for BLEU: `"13a"` for plain text, `"none"` for tokenized text,
            `"intl"`, `"char"`, `"zh"` and others. Defaults to `"13a"`.
        lowercase: Whether BLEU and chrF ignore case. Defaults to False.

    Returns:
        A report with a score for each metric.

    Raises:
        TypeError: If hypotheses or references are not strings.
        ValueError: If there are no hypotheses, hypotheses and references differ in number, all references are
            empty, or a metric or tokenization is unknown.

    Example:
        >>> print(evaluate(["2023-03-03"], ["2023-03-04"], ["exact_match", "character_error_rate"]))
        exact match            0.00 %
        character error rate  10.00 %
        outputs: 1
    """
    metrics = METRICS if metrics is None else metrics
    check_flags(lowercase=lowercase)
    check_several(str, metrics=metrics)
    unknown = [metric for metric in metrics if metric not in METRICS]
    if unknown or not metrics:
        raise ValueError(f"`metrics` must name some of {', '.join(METRICS)}. Received: {unknown or metrics}.")
    check_choice(TOKENIZATIONS, tokenize=tokenize)
    rights = _checked_references(hypotheses, references)
    scores = {metric: _measure(metric, hypotheses, rights, tokenize, lowercase) for metric in metrics}
    num_empty = sum(not hypothesis.strip() for hypothesis in hypotheses)
    return EvaluationReport(num_items=len(hypotheses), scores=scores, num_empty=num_empty)


def _measure(
    metric: str,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: str,
    lowercase: bool,
) -> Score:
    if metric in _RATES:
        value = _RATES[metric](hypotheses, references)
        return Score(name=metric.replace("_", " "), value=value, is_fraction=True)
    # `force` only silences the warning about tokenized text, which "none" expects.
    measure = (
        BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
        if metric == "bleu"
        else CHRF(lowercase=lowercase)
    )
    # sacreBLEU expects one list for each reference position; None means "no further reference".
    result = measure.corpus_score(list(hypotheses), list(itertools.zip_longest(*references)))
    return Score(
        name=result.name,
        value=result.score,
        signature=str(measure.get_signature()),
        # "BLEU = 41.02 71.0/47.5/34.3/24.5 (BP = ...": what follows the number.
        details=result.format().partition(" = ")[2].partition(" ")[2],
    )
