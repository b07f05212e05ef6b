"""Whether a SavedModel answers as its translator does, before anyone relies on it."""

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.decoding import Alignment, PairScore, TextTranslator, Translation
from keras_transformer.errors import ExportError
from keras_transformer.export.serving_module import SIGNATURES, utf8

# Scores may differ in the last digits: another batch size, another order of additions.
SCORE_TOLERANCE = 1e-3


def same_answer(answer: Any, wanted: Any) -> bool:
    """Compare two answers.

    Args:
        answer: a `Translation`, a list of them, an `Alignment` or a `PairScore`.
        wanted: of the same kind.

    Returns:
        Whether texts and tokens are equal, and numbers close. Hypotheses after the first may be
        exchanged where their scores are as close as that.
    """
    if isinstance(wanted, list):
        return _same_hypotheses(answer, wanted)
    if not close(answer.score, wanted.score):
        return False
    if isinstance(wanted, PairScore):
        return bool(answer.num_tokens == wanted.num_tokens)
    return bool(answer.text == wanted.text) and (
        not isinstance(wanted, Alignment) or _same_attention(answer, wanted)
    )


def close(score: float, wanted: float) -> bool:
    """Compare two scores.

    Args:
        score: a log-probability, perhaps divided.
        wanted: another.

    Returns:
        Whether they are equal but for rounding.
    """
    return math.isclose(score, wanted, rel_tol=1e-4, abs_tol=SCORE_TOLERANCE)


def _same_hypotheses(answers: Sequence[Translation], wanted: Sequence[Translation]) -> bool:
    if len(answers) != len(wanted) or not all(
        close(a.score, w.score) for a, w in zip(answers, wanted, strict=True)
    ):
        return False
    if answers[0].text != wanted[0].text:
        return False
    return all(a.text == w.text or _is_tied(w, wanted) for a, w in zip(answers, wanted, strict=True))


def _is_tied(hypothesis: Translation, hypotheses: Sequence[Translation]) -> bool:
    """Say whether another one could stand in its place: the last may also be tied with one not kept."""
    others = [other for other in hypotheses if other is not hypothesis]
    return hypothesis is hypotheses[-1] or any(close(hypothesis.score, other.score) for other in others)


def _same_attention(answer: Alignment, wanted: Alignment) -> bool:
    tokens = (answer.source_tokens, answer.output_tokens) == (wanted.source_tokens, wanted.output_tokens)
    return tokens and bool(np.allclose(answer.attention, wanted.attention, atol=SCORE_TOLERANCE))


# No UTF-8: there is no string of it that a translator could be asked.
NOT_UTF8 = b"\xff\xfe\xc3"

# The line after a traceback: the class of the exception, with its modules, and the message.
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)(:|$)")

Expected = dict[str, Sequence[Any]]


def verify_saved_model(
    directory: Path,
    texts: Sequence[str],
    outputs: Sequence[str],
    expected: Expected,
    *,
    needs_tensorflow_text: bool,
) -> None:
    """Checks a SavedModel in a fresh process, as a server would see it.

    It must have only operations of TensorFlow and TensorFlow Text, the four signatures as documented,
    the expected answers, the same answers to each text alone, an answer to what is no UTF-8, and
    none to a batch of no rows.

    Args:
        directory: of the SavedModel.
        texts: sources, `b`.
        outputs: targets to be scored, one for each source.
        expected: for each signature the translator's answers, `b`.
        needs_tensorflow_text: whether its operations include those of TensorFlow Text.

    Raises:
        ExportError: what differed.
    """
    columns = {"text": [*utf8(texts), NOT_UTF8], "output": [*utf8(outputs), NOT_UTF8]}
    fresh = ask_fresh_process(directory, columns, needs_tensorflow_text=needs_tensorflow_text)
    if fresh["foreign_operations"]:
        raise ExportError(
            "A SavedModel must have only operations of TensorFlow and TensorFlow Text. "
            f"Received: {', '.join(fresh['foreign_operations'])}."
        )
    check_specifications({name: report["specification"] for name, report in fresh["signatures"].items()})
    names = [*texts, repr(NOT_UTF8)]
    for name, report in fresh["signatures"].items():
        check_answers(name, names, report, expected[name])


def check_specifications(specifications: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Checks that signatures are the documented ones.

    Args:
        specifications: for each signature `inputs` and `outputs`: a dtype and a shape by name.

    Raises:
        ExportError: a name, a dtype, a rank or a fixed batch size differs.
    """
    if set(specifications) != set(SIGNATURES):
        raise ExportError(f"Signatures must be {sorted(SIGNATURES)}. Received: {sorted(specifications)}.")
    for name, signature in SIGNATURES.items():
        for side, documented in signature._asdict().items():
            received = specifications[name][side]
            ranks = {output: (dtype, len(shape)) for output, (dtype, shape) in received.items()}
            if ranks != documented:
                raise ExportError(f"The {side} of {name} must be {documented}. Received: {received}.")
            if any(shape[0] is not None for _, shape in received.values()):
                raise ExportError(f"The {side} of {name} must take any batch size. Received: {received}.")


def check_answers(name: str, texts: Sequence[str], report: dict[str, Any], expected: Sequence[Any]) -> None:
    """Checks what a signature answered.

    Args:
        name: of the signature.
        texts: what was asked; there may be more of them than expected answers.
        report: `together`, the outputs for all rows; `alone`, those for each; and `rows_of_nothing`.
        expected: the translator's answers to the first of the texts.

    Raises:
        ExportError: an answer differs from the expected one, or from that to the text alone.
    """
    together = TextTranslator.read(name, as_arrays(report["together"]))
    for text, answer, wanted in zip(texts, together, expected, strict=False):
        if not same_answer(answer, wanted):
            raise ExportError(f"{name} must answer {text!r} with {wanted}. Received: {answer}.")
    for text, answer, outputs in zip(texts, together, report["alone"], strict=True):
        [alone] = TextTranslator.read(name, as_arrays(outputs))
        if not same_answer(answer, alone):
            raise ExportError(
                f"{name} must answer {text!r} in a batch as alone: {alone}. Received: {answer}."
            )
    if any(report["rows_of_nothing"].values()):
        raise ExportError(
            f"{name} must answer no rows with no rows. Received: {report['rows_of_nothing']} rows."
        )


def as_arrays(outputs: dict[str, Any]) -> dict[str, np.ndarray]:
    """Makes arrays of what a fresh process wrote.

    Args:
        outputs: nested lists; a string has a character for each byte.

    Returns:
        an array for each output, with bytes for strings.
    """
    return {name: np.array(_with_bytes(values)) for name, values in outputs.items()}


def ask_fresh_process(
    directory: Path, columns: dict[str, list[bytes]], *, needs_tensorflow_text: bool
) -> dict[str, Any]:
    """Loads a SavedModel in a new process that imports only TensorFlow, and asks it.

    Args:
        directory: of the SavedModel.
        columns: `text` and `output`.
        needs_tensorflow_text: whether the operations of TensorFlow Text are loaded too.

    Returns:
        `foreign_operations`, a list of names; if there are none, `signatures`: for each its
        `specification`, and the outputs to all rows `together` and to each `alone`.

    Raises:
        ExportError: the process fails.
    """
    program = Path(__file__).with_name("fresh_process.py").read_text(encoding="utf-8")
    options = ["text"] if needs_tensorflow_text else []
    process = subprocess.run(
        [sys.executable, "-c", program, str(directory), *options],
        input=json.dumps({name: [row.decode("latin-1") for row in rows] for name, rows in columns.items()}),
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        check=False,
    )
    if process.returncode:
        cause = last_error(process.stderr) or f"exit status {process.returncode}"
        raise ExportError(f"The SavedModel in {directory} must answer on its own. Received: {cause}")
    answers: dict[str, Any] = json.loads(process.stdout)
    return answers


def last_error(text: str) -> str:
    """Find the message of the exception that ended a process, whose last line alone may say nothing.

    Args:
        text: what the process wrote to its standard error.

    Returns:
        The message on one line, at most 1,000 characters of it; the last line where no exception is found.
    """
    lines = text.strip().splitlines()
    starts = [number for number, line in enumerate(lines) if _EXCEPTION.match(line)]
    return " ".join(" ".join(lines[starts[-1] if starts else -1 :]).split())[:1000]


def _with_bytes(values: Any) -> Any:
    if isinstance(values, list):
        return [_with_bytes(value) for value in values]
    return values.encode("latin-1") if isinstance(values, str) else values
