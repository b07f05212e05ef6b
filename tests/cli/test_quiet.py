"""Only TensorFlow's start is silent, and only our warnings are a line."""

import os
import warnings

import pytest

from keras_transformer.cli.quiet import one_line_warnings, start_tensorflow
from keras_transformer.text import VocabularyWarning


def test_standard_error_is_back_afterwards(capfd: pytest.CaptureFixture[str]) -> None:
    start_tensorflow()
    os.write(2, b"heard")
    assert capfd.readouterr().err == "heard"


def test_our_warnings_are_one_line_and_others_as_ever() -> None:
    usual = warnings.formatwarning
    with one_line_warnings():
        ours = warnings.formatwarning("too\nsmall", VocabularyWarning, "file.py", 1)
        theirs = warnings.formatwarning("old", UserWarning, "file.py", 1, "code")
    assert ours == "Warning: too small\n"
    assert theirs == usual("old", UserWarning, "file.py", 1, "code")
    assert warnings.formatwarning is usual
