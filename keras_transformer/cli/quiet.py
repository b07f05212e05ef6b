"""Standard error without what tells a user nothing: notices at TensorFlow's start, and lines of our code."""

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator


def start_tensorflow() -> None:
    """Import TensorFlow and let it look for devices, with standard error closed to its C++ parts.

    What fails raises as ever; only notices about CPU features and absent GPUs are lost.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _silent_standard_error():
        import tensorflow as tf

        tf.config.list_physical_devices()  # not the logical ones: threads may yet be chosen


@contextlib.contextmanager
def one_line_warnings() -> Iterator[None]:
    """Print this package's warnings as a line each, without the line of code that warns.

    Yields:
        Nothing; afterwards warnings look as before.
    """
    usual = warnings.formatwarning

    def formatted(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        """Format a warning."""
        if category.__module__.partition(".")[0] != __package__.partition(".")[0]:
            return usual(message, category, filename, lineno, line)
        return f"Warning: {' '.join(str(message).split())}\n"

    warnings.formatwarning = formatted
    try:
        yield
    finally:
        warnings.formatwarning = usual


@contextlib.contextmanager
def _silent_standard_error() -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)
