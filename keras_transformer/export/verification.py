"""Whether a SavedModel answers as its translator does, before anyone relies on it."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.decoding import Translation

# Scores may differ in the last digits: another batch size, another order of additions.
SCORE_TOLERANCE = 1e-3


class ExportError(RuntimeError):
    """A SavedModel does not give what the model gives."""


def verify_saved_model(
    directory: Path, texts: Sequence[str], expected: Sequence[Translation], *, needs_tensorflow_text: bool
) -> None:
    """Compares a SavedModel's answers, given in a fresh process, with the expected ones.

    Args:
        directory: of the SavedModel.
        texts: sources.
        expected: the translator's answers to them.
        needs_tensorflow_text: whether its operations include those of TensorFlow Text.

    Raises:
        ExportError: the SavedModel cannot be loaded alone, or an answer differs.
    """
    answers = answers_of_fresh_process(directory, texts, needs_tensorflow_text=needs_tensorflow_text)
    for text, answer, wanted in zip(texts, answers, expected, strict=True):
        if answer.text != wanted.text or abs(answer.score - wanted.score) > SCORE_TOLERANCE:
            raise ExportError(f"The SavedModel must answer {text!r} with {wanted}. Received: {answer}.")


def answers_of_fresh_process(
    directory: Path, texts: Sequence[str], *, needs_tensorflow_text: bool
) -> list[Translation]:
    """Loads a SavedModel in a new process that imports only TensorFlow, and asks it.

    Args:
        directory: of the SavedModel.
        texts: sources, asked one by one.
        needs_tensorflow_text: whether the operations of TensorFlow Text are loaded too.

    Returns:
        an answer for each source.

    Raises:
        ExportError: the process fails.
    """
    program = Path(__file__).with_name("fresh_process.py").read_text(encoding="utf-8")
    options = ["text"] if needs_tensorflow_text else []
    process = subprocess.run(
        [sys.executable, "-c", program, str(directory), *options],
        input=json.dumps(list(texts)),
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        check=False,
    )
    if process.returncode:
        cause = process.stderr.strip().rsplit("\n", maxsplit=1)[-1]
        raise ExportError(f"The SavedModel in {directory} must answer on its own. Received: {cause}")
    return [Translation(text, score) for text, score in json.loads(process.stdout)]
