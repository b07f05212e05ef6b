"""TensorFlow's start without the lines that it writes past every log level."""

import contextlib
import os
import sys
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
