"""BLEU and chrF, computed by sacreBLEU and named with its signature."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics import BLEU, CHRF

from keras_transformer.evaluation.error_rates import References, references_of_each


@dataclasses.dataclass(frozen=True, kw_only=True)
class Score:
    """A measured number with what is needed to measure it again.

    >>> print(Score(name="BLEU", value=41.024, signature="nrefs:1|tok:none"))
    BLEU 41.02 (nrefs:1|tok:none)
    >>> print(Score(name="exact match", value=0.995, is_fraction=True))
    exact match 99.50 %
    """

    name: str
    """What was measured, for people."""

    value: float
    """The number; BLEU and chrF count from 0 to 100, rates from 0 to 1."""

    signature: str = ""
    """The settings in sacreBLEU's notation; empty where there are none."""

    details: str = ""
    """The parts of the number, for example the n-gram precisions of BLEU."""

    is_fraction: bool = False
    """Whether `value` is a rate, which is printed in percent."""

    @property
    def formatted_value(self) -> str:
        """The value as it is printed, with two decimals."""
        return f"{100 * self.value:.2f} %" if self.is_fraction else f"{self.value:.2f}"

    def __str__(self) -> str:
        signature = f" ({self.signature})" if self.signature else ""
        return f"{self.name} {self.formatted_value}{signature}"


#: Names of sacreBLEU's tokenizations, such as "13a", "none", "intl", "char" and "zh".
TOKENIZATIONS: tuple[str, ...] = tuple(BLEU.TOKENIZERS)


def bleu(
    hypotheses: Sequence[str], references: References, *, tokenize: str = "13a", lowercase: bool = False
) -> Score:
    """Compute the corpus BLEU (Papineni et al. 2002) as the `sacrebleu` command does.

    Args:
        hypotheses: the answers.
        references: for each answer one reference, or several.
        tokenize: `"13a"` for plain text, `"none"` where answers and references are tokenized already;
            one of `TOKENIZATIONS`.
        lowercase: whether case is ignored.

    Returns:
        A score from 0 to 100 with sacreBLEU's signature.

    Raises:
        ValueError: there are no hypotheses, not as many references, or `tokenize` is unknown.
    """
    if tokenize not in TOKENIZATIONS:
        raise ValueError(
            f"`tokenize` must be one of {', '.join(TOKENIZATIONS)}. Received: tokenize={tokenize!r}."
        )
    # `force` only silences the warning about tokenized text, which "none" asks for.
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    return _corpus_score(metric, hypotheses, references)


def chrf(
    hypotheses: Sequence[str], references: References, *, word_order: int = 0, lowercase: bool = False
) -> Score:
    """Compute the corpus chrF (Popović 2015) as the `sacrebleu` command does.

    Args:
        hypotheses: the answers.
        references: for each answer one reference, or several.
        word_order: 0 for chrF, 2 for chrF++.
        lowercase: whether case is ignored.

    Returns:
        A score from 0 to 100 with sacreBLEU's signature.

    Raises:
        ValueError: there are no hypotheses, not as many references, or `word_order` is negative.
    """
    if word_order < 0:
        raise ValueError(f"`word_order` must be 0 or more. Received: word_order={word_order}.")
    return _corpus_score(CHRF(word_order=word_order, lowercase=lowercase), hypotheses, references)


def _corpus_score(metric: Any, hypotheses: Sequence[str], references: References) -> Score:
    # sacreBLEU reads one list per reference position; None stands for "no further reference".
    positions = list(itertools.zip_longest(*references_of_each(hypotheses, references)))
    result = metric.corpus_score(list(hypotheses), positions)
    return Score(
        name=result.name,
        value=result.score,
        signature=str(metric.get_signature()),
        # "BLEU = 41.02 71.0/47.5/34.3/24.5 (BP = ...": what follows the number.
        details=result.format().partition(" = ")[2].partition(" ")[2],
    )
