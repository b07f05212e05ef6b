"""Progress and talk go to standard error; only our warnings are a line; a mistake is one line."""

import errno
import logging
import warnings

import pytest
import tensorflow as tf
from click.testing import CliRunner, Result

from keras_transformer.cli.epoch_progress import _EpochProgress
from keras_transformer.cli.terminal import Verb, progress_bar
from keras_transformer.errors import ExportError, InputError
from keras_transformer.text import VocabularyWarning

OUT_OF_MEMORY = tf.errors.ResourceExhaustedError(
    None,
    None,
    "Detected at node\n  File a.py, line 1\nOOM when allocating tensor with shape[9,9]\nHint: a page",
)


def failing(error: BaseException) -> Result:
    def fail() -> None:
        raise error

    return CliRunner().invoke(Verb("fail", callback=fail))


def test_an_export_that_is_not_right_is_one_line_and_status_1() -> None:
    result = failing(ExportError("must answer\nas the model"))
    assert (result.exit_code, result.stderr) == (1, "Error: must answer as the model\n")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InputError("pairs.tsv:3: two\nlines"), "Error: pairs.tsv:3: two lines\n"),
        (OSError(28, "No space left on device", "model.keras"), "model.keras: No space left on device"),
        (PermissionError(13, "Permission denied", "runs"), "Error: runs: Permission denied\n"),
        (KeyboardInterrupt(), "Error: Interrupted.\n"),
        (MemoryError("Unable to allocate 9 TiB"), "enough memory. Unable to allocate 9 TiB"),
        (OUT_OF_MEMORY, "Received: OOM when allocating tensor with shape[9,9]"),
        (RuntimeError("INTERNAL\nRESOURCE_EXHAUSTED: Out of memory"), "RESOURCE_EXHAUSTED: Out of memory"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(error: BaseException, line: str) -> None:
    result = failing(error)
    assert result.exit_code == 2
    assert line in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_reader_that_has_read_enough_ends_it_without_a_word() -> None:
    result = failing(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert (result.exit_code, result.output) == (1, "")


def test_a_fault_of_ours_is_not_hidden() -> None:
    assert isinstance(failing(ZeroDivisionError("ours")).exception, ZeroDivisionError)


def test_what_the_package_logs_is_talk() -> None:
    logger = logging.getLogger("keras_transformer.data.pairs")
    result = CliRunner().invoke(Verb("say", callback=lambda: logger.info("%d pairs", 3)))
    assert (result.stdout, result.stderr) == ("", "3 pairs\n")
    assert not logging.getLogger("keras_transformer").handlers


def test_our_warnings_are_one_line_and_others_as_ever() -> None:
    usual, shown = warnings.formatwarning, []

    def warn() -> None:
        shown.append(warnings.formatwarning("too\nsmall", VocabularyWarning, "file.py", 1))
        shown.append(warnings.formatwarning("old", UserWarning, "file.py", 1, "code"))

    CliRunner().invoke(Verb("warn", callback=warn))
    assert shown == ["Warning: too small\n", usual("old", UserWarning, "file.py", 1, "code")]
    assert warnings.formatwarning is usual


def test_an_epoch_says_what_it_reached(capsys: pytest.CaptureFixture[str]) -> None:
    callback = _EpochProgress("exact_match")
    callback.set_params({"epochs": 3, "steps": 2})
    callback.on_epoch_begin(0)
    callback.on_train_batch_end(0, {"loss": 1.0})
    callback.on_epoch_end(0, {"loss": 0.5, "accuracy": 0.25, "val_loss": 0.75, "val_exact_match": 0.5})
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "epoch 1: loss 0.5000  accuracy 0.2500  val_loss 0.7500  val_exact_match 0.5000" in captured.err


def test_a_bar_takes_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(3, "counting") as progress:
        progress(1)
        progress(2)
    assert capsys.readouterr().out == ""
