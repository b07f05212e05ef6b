"""Verification that a SavedModel returns the results of its task."""

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
# Scores may differ in the last digits: with another batch size, the order of additions changes.
_SCORE_TOLERANCE = 1e-3
# Last line of a traceback: the class of the exception, with its module, and the message.
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)(:|$)")

_Outputs = dict[str, np.ndarray]


class _SignatureReport(TypedDict):
    """Report of a fresh process on a signature."""

    specification: dict[str, dict[str, tuple[str, list[int | None]]]]  # dtype, shape by `inputs`, `outputs`
    together: _Outputs  # outputs for all rows in a batch
    alone: list[_Outputs]  # outputs for each row in a separate request
    of_nothing: _Outputs  # outputs for an empty batch


class _FreshReport(TypedDict):
    """Report of a fresh process on a SavedModel."""

    foreign_operations: list[str]
    signatures: dict[Signature, _SignatureReport]  # empty if there are foreign operations


class _Expected(NamedTuple):
    """Expected results of a task, to which those of an export are compared."""

    sources: list[Value]
    results: dict[Signature, Sequence[Any]]
    """Results of each signature."""

    @classmethod
    def of(cls, task: ModelTask, examples: Iterable[Value] = ()) -> "_Expected":
        """Compute the results for the first examples and for unusual sources."""
        sources = _compared_sources(task, examples)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncationWarning)
            return cls(sources, task.expected_results(sources))


def _compared_sources(task: ModelTask, examples: Iterable[Value]) -> list[Value]:
    """Return the first examples and the unusual sources of the task's kind."""
    # A task in memory does not accept bytes that are not UTF-8.
    hard = [value for value in task.reader.hard_values if not isinstance(value, bytes)]
    return [*task.reader.check("examples", examples)[:MAX_EXAMPLES], *hard]


def verify_saved_model(directory: str | Path, task: ModelTask, examples: Iterable[Value] = ()) -> None:
    """Raise ExportError unless a SavedModel returns the results of its task.

    A new process without Keras and this package loads the SavedModel. The SavedModel must consist of
    operations of TensorFlow and TensorFlow Text, have the documented signatures, return the task's results
    for each source (in a batch and alone), accept bytes that are not UTF-8, and return no rows
    for an empty batch.

    Args:
        directory: Directory of a version.
        task: The exported task.
        examples: Real sources. Results are compared for the first 8, and for unusual sources such as empty
            ones.

    Raises:
        ExportError: If a requirement is not met; the message shows which.
    """
    task = task.repeatable()
    _verify_results(Path(directory), task, _Expected.of(task, examples))


def _verify_results(directory: Path, task: ModelTask, expected: _Expected) -> None:
    """Raise ExportError unless a SavedModel returns the expected results."""
    raw = [value for value in task.reader.hard_values if isinstance(value, bytes)]
    columns = task.request_columns([*expected.sources, *raw], expected.results)
    fresh = _ask_fresh_process(directory, columns, needs_text=_needs_tensorflow_text(task))
    if fresh["foreign_operations"]:
        raise ExportError(
            "A SavedModel must have only operations of TensorFlow and TensorFlow Text. "
            f"Received: {', '.join(fresh['foreign_operations'])}."
        )
    _check_specifications(fresh["signatures"], task)
    for name, report in fresh["signatures"].items():
        read, sources = task.specification(name).results, [*expected.sources, *raw]
        for difference in _result_differences(name, read, sources, report, expected.results[name]):
            raise ExportError(difference)
        rows_of_nothing = {output: len(values) for output, values in report["of_nothing"].items()}
        if any(rows_of_nothing.values()):
            raise ExportError(f"{name} must return no rows for no rows. Received: {rows_of_nothing} rows.")


def _needs_tensorflow_text(task: ModelTask) -> bool:
    """Return whether the graph of a task contains operations of TensorFlow Text."""
    tokenizers = (getattr(task, name) for name in task.tokenizer_names)
    return any(getattr(tokenizer, "needs_tensorflow_text", False) for tokenizer in tokenizers)


def _ask_fresh_process(directory: Path, columns: dict[str, np.ndarray], *, needs_text: bool) -> _FreshReport:
    """Run `fresh_process.py`; raise ExportError if it fails."""
    program = Path(__file__).with_name("fresh_process.py").read_text(encoding="utf-8")
    # -P: the process must not import modules from the working directory, such as a numbers.py.
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
            f"The SavedModel in {directory} must work in a new process. "
            f"Received: {cause or f'exit status {process.returncode}'}"
        )
    report: _FreshReport = pickle.loads(process.stdout)
    return report


def _last_error(text: str) -> str:
    """Return the message of the exception that ended a process, on one line of at most 1,000 characters."""
    # The last line is not enough: TensorFlow's messages have several.
    lines = text.strip().splitlines()
    starts = [number for number, line in enumerate(lines) if _EXCEPTION.match(line)]
    return " ".join(" ".join(lines[starts[-1] if starts else -1 :]).split())[:1000]


def _check_specifications(reports: dict[Signature, _SignatureReport], task: ModelTask) -> None:
    """Raise ExportError unless the signatures are the documented ones, for any batch size."""
    # An export compiled by XLA has no `search`.
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


def _result_differences(
    name: Signature,
    read: Callable[[_Outputs], list[Any]],
    sources: Sequence[Value],
    report: _SignatureReport,
    expected: Sequence[object],
) -> Iterator[str]:
    """Describe each result that differs from the expected one, or from the result of a separate request."""
    together = read(report["together"])
    # The last source may be bytes that are not UTF-8, which have no expected result.
    for source, received, wanted in zip(sources, together, expected, strict=False):
        if not _is_same(received, wanted):
            yield f"{name} must return {wanted} for {source!r}. Received: {received}."
    # A server batches the requests of several clients, which must not affect each other.
    for source, received, outputs in zip(sources, together, report["alone"], strict=True):
        [alone] = read(outputs)
        if not _is_same(received, alone):
            wanted = f"{alone} for {source!r} in a batch, as for {source!r} alone"
            yield f"{name} must return {wanted}. Received: {received}."


def _is_same(received: object, wanted: object) -> bool:
    """Return whether two results have the same strings and close numbers."""
    if isinstance(wanted, list):
        return isinstance(received, list) and _are_same_hypotheses(received, wanted)
    return all(_is_same_value(getattr(received, name), value) for name, value in vars(wanted).items())


def _is_same_value(value: object, wanted: object) -> bool:
    if isinstance(value, float) and isinstance(wanted, float):
        return _is_close(value, wanted)
    if isinstance(value, np.ndarray) and isinstance(wanted, np.ndarray):
        return value.shape == wanted.shape and np.allclose(value, wanted, atol=_SCORE_TOLERANCE)
    if isinstance(value, dict) and isinstance(wanted, dict):
        same_names = value.keys() == wanted.keys()
        return same_names and all(_is_same_value(value[name], wanted[name]) for name in wanted)
    return value == wanted


def _are_same_hypotheses(received: list[Translation], wanted: list[Translation]) -> bool:
    """Return whether hypotheses are equal; after the first, those with close scores may be swapped."""
    if len(received) != len(wanted) or received[0].text != wanted[0].text:
        return False
    pairs = list(zip(received, wanted, strict=True))
    return all(_is_close(a.score, w.score) and (a.text == w.text or _is_tied(w, wanted)) for a, w in pairs)


def _is_tied(hypothesis: Translation, hypotheses: Sequence[Translation]) -> bool:
    """Return whether another hypothesis has a close score; True for the last, whose tie may be cut off."""
    others = [other for other in hypotheses if other is not hypothesis]
    return hypothesis is hypotheses[-1] or any(_is_close(hypothesis.score, other.score) for other in others)


def _is_close(score: float, wanted: float) -> bool:
    """Return whether two scores are equal except for rounding."""
    return math.isclose(score, wanted, rel_tol=1e-4, abs_tol=_SCORE_TOLERANCE)
