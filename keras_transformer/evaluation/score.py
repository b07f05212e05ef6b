"""A measured number with what is needed to measure it again."""

import dataclasses


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
