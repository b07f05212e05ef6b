"""Only TensorFlow's start is silent."""

import os

import pytest

from keras_transformer.cli.quiet import start_tensorflow


def test_standard_error_is_back_afterwards(capfd: pytest.CaptureFixture[str]) -> None:
    start_tensorflow()
    os.write(2, b"heard")
    assert capfd.readouterr().err == "heard"
