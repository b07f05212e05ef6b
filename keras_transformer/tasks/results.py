"""What tasks return, and the signatures: what a request holds, and what a row of its outputs becomes."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from keras_transformer.errors import InputError
from keras_transformer.types import LOWEST_SCORE, Columns, Signature


@dataclasses.dataclass(frozen=True)
class TokenScore:
    """A token of an output or of a given target, and what else could have been there."""

    token: str
    """The token, as the tokenizer of the target names it."""
    score: float
    """Its log-probability after the tokens before."""
    alternatives: tuple[tuple[str, float], ...]
    """The most likely tokens after the tokens before, with their log-probabilities, best first."""


@dataclasses.dataclass(frozen=True)
class Translation:
    """The output for a source, and its score."""

    text: str
    """The output, without special tokens."""
    score: float
    """Its log-probability, divided by the search's length penalty."""
    tokens: tuple[TokenScore, ...] | None = None
    """Its tokens, the end token included; None where they are not asked for."""


@dataclasses.dataclass(frozen=True)
class PairScore:
    """The score of a given target."""

    score: float
    """Its log-probability, divided by the search's length penalty."""
    num_tokens: int
    """Its number of tokens, the end token included."""
    tokens: tuple[TokenScore, ...] | None = None
    """Its tokens, whose log-probabilities add up to its own; None where they are not asked for."""


@dataclasses.dataclass(frozen=True, eq=False)
class Alignment:
    """The output for a source, and the attention of each of its tokens to the source."""

    text: str
    """The output, without special tokens."""
    score: float
    """Its log-probability, divided by the search's length penalty."""
    source_tokens: tuple[str, ...]
    """The `s` tokens that the model read; the last is the end token."""
    output_tokens: tuple[str, ...]
    """The `t` tokens that it generated, with the end token if the output has one."""
    attention: np.ndarray
    """float32 `(t, s)`: a row for each output token, which sums to 1."""


class TruncationWarning(UserWarning):
    """A source was longer than the task's limit, and its end was not read.

    `warnings.simplefilter("error", TruncationWarning)` makes it an error, `"ignore"` silences it.
    """


Outputs: TypeAlias = Mapping[str, np.ndarray]
"""The arrays of an answer, by their names."""


class ServedSignature(NamedTuple):
    """What a signature takes besides the source, what it returns, and what one row of that becomes."""

    inputs: Columns
    outputs: Columns
    """The outputs that a result is made of."""
    read: Callable[..., object]
    details: Columns | None = None
    """Further outputs, which a result has where they are asked for."""

    @property
    def served_outputs(self) -> Columns:
        """All outputs: every signature says which rows were cut off, too."""
        return {**self.outputs, **(self.details or {}), "is_cut": ("bool", 1)}

    def detailed(self) -> "ServedSignature":
        """Return the signature whose results have the details, too."""
        return self._replace(outputs={**self.outputs, **(self.details or {})})

    def results(self, outputs: Outputs) -> list[Any]:
        """Turn the arrays of a batch into one result for each row."""
        if missing := [name for name in self.outputs if name not in outputs]:
            raise InputError(f"An export of today has {', '.join(missing)}, too: export the model anew.")
        columns = (outputs[name] for name in self.outputs)
        return [self.read(*row) for row in zip(*columns, strict=True)]


def _translation(output: bytes, score: float) -> Translation:
    return Translation(output.decode("utf-8"), float(score))


def _hypotheses(outputs: np.ndarray, scores: np.ndarray) -> list[Translation]:
    # A search may find fewer than `n` sequences. The others have `LOWEST_SCORE` and what the model added to
    # it, divided by a length penalty: a wide gap separates both kinds.
    return [
        _translation(output, score)
        for rank, (output, score) in enumerate(zip(outputs, scores, strict=True))
        if rank == 0 or score > LOWEST_SCORE / 1e6
    ]


def _alignment(
    output: bytes, score: float, source_tokens: np.ndarray, output_tokens: np.ndarray, attention: np.ndarray
) -> Alignment:
    # Padding tokens are empty strings.
    columns, rows = (
        tuple(token.decode("utf-8") for token in tokens if token) for tokens in (source_tokens, output_tokens)
    )
    attention = attention[: len(rows), : len(columns)]
    return Alignment(output.decode("utf-8"), float(score), columns, rows, attention)


def _pair_score(score: float, num_tokens: int, *details: np.ndarray) -> PairScore:
    return PairScore(float(score), int(num_tokens), _token_scores(*details) if details else None)


def _token_scores(
    tokens: np.ndarray, scores: np.ndarray, alternatives: np.ndarray, alternative_scores: np.ndarray
) -> tuple[TokenScore, ...]:
    # Padding, and what was given, are empty strings.
    rows = zip(tokens, scores, alternatives, alternative_scores, strict=True)
    return tuple(
        TokenScore(
            token.decode("utf-8"),
            float(score),
            tuple((name.decode("utf-8"), float(each)) for name, each in zip(names, others, strict=True)),
        )
        for token, score, names, others in rows
        if token
    )


_BEST: Columns = {"output": ("string", 1), "score": ("float32", 1)}
_HYPOTHESES: Columns = {"output": ("string", 2), "score": ("float32", 2)}
_ALIGNMENT: Columns = {
    "source_tokens": ("string", 2),
    "output_tokens": ("string", 2),
    "attention": ("float32", 3),
}
# An option has a row for each source: a server that joins the requests of several clients joins their rows,
# and each source keeps the options of its own request. For an input that is left out such a server fills in
# one row, and then refuses two sources: so none has a default, and a value stands for the export's own.
OPTIONS: Columns = {
    "max_length": ("int32", 1),
    "length_penalty": ("float32", 1),
    "num_hypotheses": ("int32", 1),
}
"""The options of a request to `search`."""
SEED: Columns = {"seed": ("int32", 1)}
"""One more option, where the search samples."""
NOT_GIVEN = -1
"""The value of an option that leaves it to the export."""

TEXT_SIGNATURES: dict[Signature, ServedSignature] = {
    "serving_default": ServedSignature({}, _BEST, _translation),
    "n_best": ServedSignature({}, _HYPOTHESES, _hypotheses),
    "align": ServedSignature({}, {**_BEST, **_ALIGNMENT}, _alignment),
    "score": ServedSignature(
        {"output": ("string", 1)},
        {"score": ("float32", 1), "num_tokens": ("int32", 1)},
        _pair_score,
        # Of one width, as those of `search`.
        {
            "tokens": ("string", 2),
            "token_scores": ("float32", 2),
            "alternatives": ("string", 3),
            "alternative_scores": ("float32", 3),
        },
    ),
    "search": ServedSignature({}, _HYPOTHESES, _hypotheses),  # and its options
}
"""What tasks that write texts can be asked for; the inputs are those besides the source."""
