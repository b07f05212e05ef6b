"""Whether a SavedModel answers as its translator does, before anyone relies on it."""

import math
import os
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from keras_transformer.decoding.text_generator import TextGenerator
from keras_transformer.decoding.text_translator import (
    Alignment,
    PairScore,
    TextTranslator,
    Translation,
    TruncationWarning,
)
from keras_transformer.decoding.translator import Translator
from keras_transformer.errors import ExportError
from keras_transformer.export.readmes import _needs_tensorflow_text
from keras_transformer.export.serving_graphs import _columns, _rows, _signatures_of, _utf8
from keras_transformer.types import AUDIO, ServedInput, Signature, Source

_MAX_EXAMPLES = 8
# What users send by mistake.
_HARD_TEXTS = ("", "  ", "\U0001f600 \u05e9\u05dc\u05d5\u05dd")
# No UTF-8: there is no string of it that a translator could be asked.
_NOT_UTF8 = b"\xff\xfe\xc3"
# The least audio, and silence.
_HARD_AUDIO = (np.ones(1, "float32"), np.zeros(700, "float32"))
# Scores may differ in the last digits: another batch size, another order of additions.
_SCORE_TOLERANCE = 1e-3
# The line after a traceback: the class of the exception, with its modules, and the message.
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)(:|$)")

_Answer = Translation | list[Translation] | Alignment | PairScore
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


def verify_saved_model(
    directory: str | Path,
    translator: Translator | TextGenerator,
    examples: Iterable[Source] = (),
) -> None:
    """Raise ExportError unless a SavedModel answers as a translator does.

    It is loaded in a new process that has neither Keras nor this package. It must have only operations of
    TensorFlow and TensorFlow Text, the signatures as documented, the translator's answers, the same
    answers to each text alone, an answer to what is no UTF-8, and none to a batch of no rows.

    Args:
        directory: of a version.
        translator: the one that was exported.
        examples: real sources, of which the first 8 are compared, besides what users send by mistake.

    Raises:
        ExportError: what differs.
    """
    texts = _compared_sources(translator, examples)
    expected, outputs = _expected_answers(translator, texts)
    rows, outputs_of_rows = _rows(translator.reads, texts), _utf8(outputs)
    if translator.reads != AUDIO:
        texts, rows, outputs_of_rows = [*texts, _NOT_UTF8], [*rows, _NOT_UTF8], [*outputs_of_rows, _NOT_UTF8]
    columns = _columns(translator, rows, outputs_of_rows)
    fresh = _ask_fresh_process(Path(directory), columns, needs_text=_needs_tensorflow_text(translator))
    if fresh["foreign_operations"]:
        raise ExportError(
            "A SavedModel must have only operations of TensorFlow and TensorFlow Text. "
            f"Received: {', '.join(fresh['foreign_operations'])}."
        )
    _check_specifications(fresh["signatures"], translator.signatures, translator.reads)
    for name, report in fresh["signatures"].items():
        for difference in _differing(name, texts, report, expected[name]):
            raise ExportError(difference)
        rows_of_nothing = {output: len(values) for output, values in report["of_nothing"].items()}
        if any(rows_of_nothing.values()):
            raise ExportError(f"{name} must answer no rows with no rows. Received: {rows_of_nothing} rows.")


def _compared_sources(translator: Translator | TextGenerator, examples: Iterable[Source]) -> list[Source]:
    """Return the sources that are compared: some examples, and what users send by mistake."""
    hard = _HARD_AUDIO if translator.reads == AUDIO else _HARD_TEXTS
    return [*translator.sources(examples=examples)[:_MAX_EXAMPLES], *hard]


def _expected_answers(
    translator: Translator | TextGenerator, texts: list[Source]
) -> tuple[dict[Signature, Sequence[_Answer]], list[str]]:
    """Return the translator's answers for each signature, and its outputs, which are scored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        translations = translator.translate_with_scores(texts)
        outputs = [translation.text for translation in translations]
        hypotheses = translator.n_best(texts)
        return {
            "serving_default": translations,
            "n_best": hypotheses,
            "align": translator.align(texts) if "align" in translator.signatures else [],
            "score": translator.score(texts, outputs),
            "search": hypotheses,
        }, outputs


def _ask_fresh_process(directory: Path, columns: dict[str, list[Any]], *, needs_text: bool) -> _FreshReport:
    """Run `fresh_process.py`; raise ExportError if it fails."""
    program = Path(__file__).with_name("fresh_process.py").read_text(encoding="utf-8")
    process = subprocess.run(
        [sys.executable, "-c", program, str(directory), *(["text"] if needs_text else [])],
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


def _check_specifications(
    reports: dict[Signature, _SignatureReport], names: Sequence[Signature], reads: ServedInput
) -> None:
    """Raise ExportError unless signatures are the documented ones, of any batch size."""
    # A search that XLA compiled takes no options.
    if {*reports, "search"} != set(names):
        raise ExportError(f"Signatures must be {sorted(names)}. Received: {sorted(reports)}.")
    for name in reports:
        for side, documented in _signatures_of(reads)[name]._asdict().items():
            received = reports[name]["specification"][side]
            ranks = {column: (dtype, len(shape)) for column, (dtype, shape) in received.items()}
            if ranks != documented:
                raise ExportError(f"The {side} of {name} must be {documented}. Received: {received}.")
            if any(shape[0] is not None for _, shape in received.values()):
                raise ExportError(f"The {side} of {name} must take any batch size. Received: {received}.")


def _differing(
    name: Signature,
    texts: Sequence[Source],
    report: _SignatureReport,
    expected: Sequence[_Answer],
) -> Iterator[str]:
    """Describe answers that are not the expected ones, or not those to the text alone."""
    together = TextTranslator.read(name, report["together"])
    # The last of the texts, no UTF-8, has no expected answer.
    for text, answer, wanted in zip(texts, together, expected, strict=False):
        if not _is_same(answer, wanted):
            yield f"{name} must answer {text!r} with {wanted}. Received: {answer}."
    # A server batches the requests of several clients: none may see what the others sent.
    for text, answer, outputs in zip(texts, together, report["alone"], strict=True):
        [alone] = TextTranslator.read(name, outputs)
        if not _is_same(answer, alone):
            yield f"{name} must answer {text!r} in a batch as alone: {alone}. Received: {answer}."


def _is_same(answer: _Answer, wanted: _Answer) -> bool:
    """Return whether texts and tokens are equal, and numbers close."""
    if isinstance(wanted, list):
        return isinstance(answer, list) and _are_same_hypotheses(answer, wanted)
    return all(_is_same_value(getattr(answer, name), value) for name, value in vars(wanted).items())


def _is_same_value(value: object, wanted: object) -> bool:
    if isinstance(value, float) and isinstance(wanted, float):
        return _is_close(value, wanted)
    if isinstance(value, np.ndarray) and isinstance(wanted, np.ndarray):
        return value.shape == wanted.shape and np.allclose(value, wanted, atol=_SCORE_TOLERANCE)
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
