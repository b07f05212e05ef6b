"""Results of tasks, and the signatures: the columns of a request and how its outputs become results."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from keras_transformer.errors import InputError
from keras_transformer.types import LOWEST_SCORE, Columns, Signature


@dataclasses.dataclass(frozen=True)
class TokenScore:
    """Score of one token of an output or a given target, with the most likely alternatives."""

    token: str
    """The token, as a string of the target tokenizer."""
    score: float
    """Log-probability of the token, given the tokens before it."""
    alternatives: tuple[tuple[str, float], ...]
    """The most likely tokens at this position and their log-probabilities, best first."""


@dataclasses.dataclass(frozen=True)
class Translation:
    """Output for a source, with its score."""

    text: str
    """Output without special tokens."""
    score: float
    """Log-probability, divided by the search's length penalty."""
    tokens: tuple[TokenScore, ...] | None = None
    """Token scores, including the end token. None unless requested."""


@dataclasses.dataclass(frozen=True)
class PairScore:
    """Score of a given target."""

    score: float
    """Log-probability, divided by the search's length penalty."""
    num_tokens: int
    """Number of scored tokens, including the end token."""
    tokens: tuple[TokenScore, ...] | None = None
    """Token scores, whose sum is the log-probability. None unless requested."""


@dataclasses.dataclass(frozen=True, eq=False)
class Alignment:
    """Output for a source, with the attention of each output token to the source."""

    text: str
    """Output without special tokens."""
    score: float
    """Log-probability, divided by the search's length penalty."""
    source_tokens: tuple[str, ...]
    """The `s` tokens that the model read, including the end token."""
    output_tokens: tuple[str, ...]
    """The `t` generated tokens, including the end token if there is one."""
    attention: np.ndarray
    """float32 `(t, s)`: one row for each output token; each row sums to 1."""


class TruncationWarning(UserWarning):
    """Warning that a source, or a target to score, exceeded the task's limit and was truncated.

    To turn it into an error, call `warnings.simplefilter("error", TruncationWarning)`; to silence it, pass
    `"ignore"`.
    """


Outputs: TypeAlias = Mapping[str, np.ndarray]
"""Output arrays of a signature, by name."""


class ServedSignature(NamedTuple):
    """Serving signature: inputs besides the source, outputs, and a function from output rows to results."""

    inputs: Columns
    outputs: Columns
    """Outputs that a result consists of."""
    read: Callable[..., object]
    details: Columns | None = None
    """Further outputs, which are part of a result on request."""

    @property
    def served_outputs(self) -> Columns:
        """All outputs, including `is_cut`, which every signature has."""
        return {**self.outputs, **(self.details or {}), "is_cut": ("bool", 1)}

    def detailed(self) -> "ServedSignature":
        """Return the signature with the details as part of its results."""
        return self._replace(outputs={**self.outputs, **(self.details or {})})

    def results(self, outputs: Outputs) -> list[Any]:
        """Convert the arrays of a batch to one result for each row."""
        if missing := [name for name in self.outputs if name not in outputs]:
            raise InputError(
                f"The export must have the outputs {', '.join(missing)}, which older exports lack. "
                f"Export the model again. Received: {', '.join(outputs)}."
            )
        columns = (outputs[name] for name in self.outputs)
        return [self.read(*row) for row in zip(*columns, strict=True)]


def _translation(output: bytes, score: float) -> Translation:
    return Translation(output.decode("utf-8"), float(score))


def _hypotheses(outputs: np.ndarray, scores: np.ndarray) -> list[Translation]:
    # Empty slots have `LOWEST_SCORE` plus what the model added to it, divided by a length penalty. The wide
    # gap separates them from real hypotheses.
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
    # Padding and given tokens are empty strings.
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
# An option has a row for each source: when a server batches requests, it concatenates their rows, so each
# source keeps its options. For a missing input with a default, such a server would fill in a single row and
# then reject two sources. So options have no default; -1 selects the export's value.
OPTIONS: Columns = {
    "max_length": ("int32", 1),
    "length_penalty": ("float32", 1),
    "num_hypotheses": ("int32", 1),
}
"""Options of a request to `search`."""
SEED: Columns = {"seed": ("int32", 1)}
"""A further option if the search samples."""
NOT_GIVEN = -1
"""Value of an option that selects the export's default."""

TEXT_SIGNATURES: dict[Signature, ServedSignature] = {
    "serving_default": ServedSignature({}, _BEST, _translation),
    "n_best": ServedSignature({}, _HYPOTHESES, _hypotheses),
    "align": ServedSignature({}, {**_BEST, **_ALIGNMENT}, _alignment),
    "score": ServedSignature(
        {"output": ("string", 1)},
        {"score": ("float32", 1), "num_tokens": ("int32", 1)},
        _pair_score,
        # Fixed width, as for `search`.
        {
            "tokens": ("string", 2),
            "token_scores": ("float32", 2),
            "alternatives": ("string", 3),
            "alternative_scores": ("float32", 3),
        },
    ),
    "search": ServedSignature({}, _HYPOTHESES, _hypotheses),  # plus its options
}
"""Signatures of tasks with texts as outputs. Their `inputs` do not include the source."""
