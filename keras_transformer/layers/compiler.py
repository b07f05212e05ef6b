"""What the compiler behind a graph can do, and what costs much without one."""

import contextlib
import contextvars
from collections.abc import Iterator

import keras

_WITHOUT_DOUBLES = contextvars.ContextVar("without_doubles", default=False)


def in_compiler() -> bool:
    """Say whether what is traced now goes to XLA.

    Returns:
        True with JAX, and in a graph of TensorFlow that is made for `jit_compile`: there every size is
        known when it is compiled, even if not while it is traced.
    """
    if keras.backend.backend() != "tensorflow":
        return keras.backend.backend() == "jax"
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util  # nothing public tells of `jit_compile`

    return bool(control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


def writes_slices() -> bool:
    """Say whether a slice of a tensor is written without copying the rest, or is as good as anything.

    Returns:
        False in a graph of TensorFlow itself, whose `write_rows` is better.
    """
    return keras.backend.backend() != "tensorflow" or in_compiler()


def has_fast_doubles() -> bool:
    """Say whether float64 is there, and costs little.

    Returns:
        True in a graph of TensorFlow itself, where the number of operations counts; not inside
        `without_doubles`.
    """
    return keras.backend.backend() == "tensorflow" and not in_compiler() and not _WITHOUT_DOUBLES.get()


def only_processors() -> bool:
    """Say whether TensorFlow is the backend and has no device but processors.

    Returns:
        True where its operations run on a processor, one by one or compiled.
    """
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return all(device.device_type == "CPU" for device in tf.config.list_logical_devices())


@contextlib.contextmanager
def without_doubles() -> Iterator[None]:
    """Trace a graph for an engine that has no arithmetic in float64, such as LiteRT.

    Yields:
        Nothing.
    """
    token = _WITHOUT_DOUBLES.set(True)
    try:
        yield
    finally:
        _WITHOUT_DOUBLES.reset(token)
