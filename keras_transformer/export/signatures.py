"""The four signatures of an export, and what their answers mean."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.decoding import PairScore, Translation
from keras_transformer.decoding.answers import make_alignment, make_hypotheses


class Signature(NamedTuple):
    """The names, types and ranks of what goes in and comes out; the first axis is the batch."""

    inputs: dict[str, tuple[str, int]]
    """dtype and rank by name."""
    outputs: dict[str, tuple[str, int]]
    """Likewise."""


_TEXT = {"text": ("string", 1)}

SIGNATURES = {
    "serving_default": Signature(_TEXT, {"output": ("string", 1), "score": ("float32", 1)}),
    "n_best": Signature(_TEXT, {"output": ("string", 2), "score": ("float32", 2)}),
    "align": Signature(
        _TEXT,
        {
            "output": ("string", 1),
            "score": ("float32", 1),
            "source_tokens": ("string", 2),
            "output_tokens": ("string", 2),
            "attention": ("float32", 3),
        },
    ),
    "score": Signature(
        {**_TEXT, "output": ("string", 1)}, {"score": ("float32", 1), "num_tokens": ("int32", 1)}
    ),
}

Outputs = dict[str, np.ndarray]


def read_answers(name: str, texts: Sequence[str], outputs: Outputs) -> list[Any]:
    """Turn the outputs of a signature into what a `Translator` answers.

    Args:
        name: of the signature.
        texts: the sources that were asked, `b`.
        outputs: an array for each output, strings as bytes.

    Returns:
        `b` times a `Translation`, a list of them, an `Alignment` or a `PairScore`.
    """
    columns = [outputs[output] for output in SIGNATURES[name].outputs]
    rows = zip(texts, *columns, strict=True)
    if name == "n_best":
        return [make_hypotheses(*row) for row in rows]
    if name == "align":
        return [make_alignment(*row) for row in rows]
    if name == "score":
        return [PairScore(float(score), int(num_tokens)) for _, score, num_tokens in rows]
    return [Translation(output.decode("utf-8"), float(score)) for _, output, score in rows]
