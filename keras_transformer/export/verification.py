"""Whether a SavedModel answers as its translator does, before anyone relies on it."""

import math
import os
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np

from keras_transformer.errors import ExportError
from keras_transformer.tasks import ModelTask, Translation, TruncationWarning
from keras_transformer.types import Signature, Value

MAX_EXAMPLES = 8
# Scores may differ in the last digits: another batch size, another order of additions.
_SCORE_TOLERANCE = 1e-3
# The line after a traceback: the class of the exception, with its modules, and the message.
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)(:|$)")

_Outputs = dict[str, np.ndarray]


class _SignatureReport(TypedDict):
    """What a fresh process tells of a signature."""

    specification: dict[str, dict[str, tuple[str, list[int | None]]]]  # of `inputs`, `outputs`: dtype, shape
    together: _Outputs  # the outputs for all rows
    alone: list[_Outputs]  # the outputs for each row
    of_nothing: _Outputs  # the outputs for no rows


class _FreshReport(TypedDict):
    """What a fresh process tells of a SavedModel."""

    foreign_operations: list[str]
    signatures: dict[Signature, _SignatureReport]  # nothing if there are foreign operations


class _Answers(NamedTuple):
    """What a task answers to some sources, by which an export is judged."""

    sources: list[Value]
    results: dict[Signature, Sequence[Any]]
    """The results of each signature."""

    @classmethod
    def of(cls, task: ModelTask, examples: Iterable[Value] = ()) -> "_Answers":
        """Ask a task for the first examples, and for what users send by mistake."""
        sources = _compared_sources(task, examples)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncationWarning)
            return cls(sources, task.answers(sources))


def _compared_sources(task: ModelTask, examples: Iterable[Value]) -> list[Value]:
    """Return the first examples, and what users send by mistake."""
    # Bytes that are not UTF-8 are no string that a task could be asked.
    hard = [value for value in task.source.hard_values if not isinstance(value, bytes)]
    return [*task.source.check("examples", examples)[:MAX_EXAMPLES], *hard]


def verify_saved_model(directory: str | Path, task: ModelTask, examples: Iterable[Value] = ()) -> None:
    """Raise ExportError unless a SavedModel answers as a task does.

    It is loaded in a new process that has neither Keras nor this package. It must have only operations of
    TensorFlow and TensorFlow Text, the signatures as documented, the task's answers, the same answers to each
    source alone, an answer to bytes that are not UTF-8, and none to a batch of no rows.

    Args:
        directory: The directory of a version.
        task: The task that was exported.
        examples: Real sources, of which the first 8 are compared, besides what users send by mistake.

    Raises:
        ExportError: If an answer differs; the message names it.
    """
    task = task.repeatable()
    _verify_answers(Path(directory), task, _Answers.of(task, examples))


def _verify_answers(directory: Path, task: ModelTask, answers: _Answers) -> None:
    """Raise ExportError unless a SavedModel gives the answers of a task."""
    raw = [value for value in task.source.hard_values if isinstance(value, bytes)]
    columns = task.request_columns([*answers.sources, *raw], answers.results)
    fresh = _ask_fresh_process(directory, columns, needs_text=_needs_tensorflow_text(task))
    if fresh["foreign_operations"]:
        raise ExportError(
            "A SavedModel must have only operations of TensorFlow and TensorFlow Text. "
            f"Received: {', '.join(fresh['foreign_operations'])}."
        )
    _check_specifications(fresh["signatures"], task)
    for name, report in fresh["signatures"].items():
        read, sources = task.specification(name).results, [*answers.sources, *raw]
        for difference in _differing(name, read, sources, report, answers.results[name]):
            raise ExportError(difference)
        rows_of_nothing = {output: len(values) for output, values in report["of_nothing"].items()}
        if any(rows_of_nothing.values()):
            raise ExportError(f"{name} must answer no rows with no rows. Received: {rows_of_nothing} rows.")


def _needs_tensorflow_text(task: ModelTask) -> bool:
    """Return whether the graph of a task has operations of TensorFlow Text."""
    tokenizers = (getattr(task, name) for name in task.tokenizer_names)
    return any(getattr(tokenizer, "needs_tensorflow_text", False) for tokenizer in tokenizers)


def _ask_fresh_process(directory: Path, columns: dict[str, np.ndarray], *, needs_text: bool) -> _FreshReport:
    """Run `fresh_process.py`; raise ExportError if it fails."""
    program = Path(__file__).with_name("fresh_process.py").read_text(encoding="utf-8")
    # -P: files of the working directory, such as a numbers.py, are not modules of this process.
    process = subprocess.run(
        [sys.executable, "-P", "-c", program, str(directory), *(["text"] if needs_text else [])],
        input=pickle.dumps(columns),
        capture_output=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        check=False,
    )
    if process.returncode:
        cause = _last_error(process.stderr.decode("utf-8", "replace"))
        raise ExportError(
            f"The SavedModel in {directory} must answer on its own. "
            f"Received: {cause or f'exit status {process.returncode}'}"
        )
    report: _FreshReport = pickle.loads(process.stdout)
    return report


def _last_error(text: str) -> str:
    """Return the message of the exception that ended a process, on one line of at most 1,000 characters."""
    # Its last line alone may say nothing: TensorFlow's messages have several.
    lines = text.strip().splitlines()
    starts = [number for number, line in enumerate(lines) if _EXCEPTION.match(line)]
    return " ".join(" ".join(lines[starts[-1] if starts else -1 :]).split())[:1000]


def _check_specifications(reports: dict[Signature, _SignatureReport], task: ModelTask) -> None:
    """Raise ExportError unless signatures are the documented ones, of any batch size."""
    # A search that XLA compiled takes no options.
    if ({*reports} ^ {*task.signatures}) - {"search"}:
        raise ExportError(f"Signatures must be {sorted(task.signatures)}. Received: {sorted(reports)}.")
    for name in reports:
        specification = task.specification(name)
        for side, documented in (("inputs", specification.inputs), ("outputs", specification.served_outputs)):
            received = reports[name]["specification"][side]
            ranks = {column: (dtype, len(shape)) for column, (dtype, shape) in received.items()}
            if ranks != documented:
                raise ExportError(f"The {side} of {name} must be {documented}. Received: {received}.")
            if any(shape[0] is not None for _, shape in received.values()):
                raise ExportError(f"The {side} of {name} must take any batch size. Received: {received}.")


def _differing(
    name: Signature,
    read: Callable[[_Outputs], list[Any]],
    sources: Sequence[Value],
    report: _SignatureReport,
    expected: Sequence[object],
) -> Iterator[str]:
    """Describe answers that are not the expected ones, or not those to the source alone."""
    together = read(report["together"])
    # The last of the sources may be bytes that are not UTF-8, without an expected answer.
    for source, answer, wanted in zip(sources, together, expected, strict=False):
        if not _is_same(answer, wanted):
            yield f"{name} must answer {source!r} with {wanted}. Received: {answer}."
    # A server batches the requests of several clients: none may see what the others sent.
    for source, answer, outputs in zip(sources, together, report["alone"], strict=True):
        [alone] = read(outputs)
        if not _is_same(answer, alone):
            yield f"{name} must answer {source!r} in a batch as alone: {alone}. Received: {answer}."


def _is_same(answer: object, wanted: object) -> bool:
    """Return whether texts and tokens are equal, and numbers close."""
    if isinstance(wanted, list):
        return isinstance(answer, list) and _are_same_hypotheses(answer, wanted)
    return all(_is_same_value(getattr(answer, name), value) for name, value in vars(wanted).items())


def _is_same_value(value: object, wanted: object) -> bool:
    if isinstance(value, float) and isinstance(wanted, float):
        return _is_close(value, wanted)
    if isinstance(value, np.ndarray) and isinstance(wanted, np.ndarray):
        return value.shape == wanted.shape and np.allclose(value, wanted, atol=_SCORE_TOLERANCE)
    if isinstance(value, dict) and isinstance(wanted, dict):
        same_names = value.keys() == wanted.keys()
        return same_names and all(_is_same_value(value[name], wanted[name]) for name in wanted)
    return value == wanted


def _are_same_hypotheses(answers: list[Translation], wanted: list[Translation]) -> bool:
    """Compare hypotheses; after the first, those of close scores may be exchanged."""
    if len(answers) != len(wanted) or answers[0].text != wanted[0].text:
        return False
    pairs = list(zip(answers, wanted, strict=True))
    return all(_is_close(a.score, w.score) and (a.text == w.text or _is_tied(w, wanted)) for a, w in pairs)


def _is_tied(hypothesis: Translation, hypotheses: Sequence[Translation]) -> bool:
    """Return whether another one could stand in its place: the last may also be tied with one not kept."""
    others = [other for other in hypotheses if other is not hypothesis]
    return hypothesis is hypotheses[-1] or any(_is_close(hypothesis.score, other.score) for other in others)


def _is_close(score: float, wanted: float) -> bool:
    """Return whether two scores are equal but for rounding."""
    return math.isclose(score, wanted, rel_tol=1e-4, abs_tol=_SCORE_TOLERANCE)
