"""The one file that asks for the compiler of the backend in use."""

from collections.abc import Callable
from typing import Any

import keras


def compile_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function of token ids as the backend does it best.

    TensorFlow gets one graph in which both sizes stay free, JAX its `jit`, which
    compiles for each shape, and torch runs as it is.

    Args:
        function: takes int32 `(b, s)`, and returns tensors.

    Returns:
        A function that gives the same.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(function, input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    if backend == "jax":
        import jax

        return jax.jit(function)
    return function
