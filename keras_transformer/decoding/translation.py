"""What a translator answers."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Translation:
    """An answer and how sure the model is of it."""

    text: str
    """The answer, without special tokens."""
    score: float
    """Its log-probability, divided by the search's length penalty."""


@dataclasses.dataclass(frozen=True)
class PairScore:
    """How likely a given target is."""

    score: float
    """Its log-probability, divided by the search's length penalty."""
    num_tokens: int
    """Its tokens, the end token included."""


@dataclasses.dataclass(frozen=True, eq=False)
class Alignment:
    """An answer, and where the model looked for each of its tokens."""

    text: str
    """The answer, without special tokens."""
    score: float
    """Its log-probability, divided by the search's length penalty."""
    source_tokens: tuple[str, ...]
    """The pieces that the model read, `s`; the last is the end token."""
    output_tokens: tuple[str, ...]
    """The pieces that it generated, `t`, with the end token if the answer has one."""
    attention: np.ndarray
    """float32 `(t, s)`: a row for each piece of the answer, which sums to 1."""


class TruncationWarning(UserWarning):
    """A text was longer than the translator's limit, and its end was not read.

    `warnings.simplefilter("error", TruncationWarning)` refuses such texts,
    `"ignore"` takes them without a word.
    """
