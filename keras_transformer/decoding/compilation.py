"""The one file that asks for the compiler of the backend in use."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_transformer.types import Tensor


def compile_function(
    function: Callable[..., Any], variables: Sequence[keras.Variable] = (), num_inputs: int = 1
) -> Callable[..., Any]:
    """Compile a function of token ids as the backend does it best.

    TensorFlow gets one graph in which both sizes stay free, JAX its `jit`, which
    compiles for each shape, and torch runs as it is.

    Args:
        function: takes int32 `(b, s)`, as often as `num_inputs` says, and returns tensors.
        variables: of the models that it uses, so that what changes later is seen.
        num_inputs: how many matrices of token ids it takes, each of a size of its own.

    Returns:
        A function that gives the same.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        signature = [tf.TensorSpec([None, None], tf.int32)] * num_inputs
        return tf.function(function, input_signature=signature, autograph=False)
    if backend == "jax":
        return _compile_with_jax(function, variables)
    return function


def compile_step(
    function: Callable[..., Any], variables: Sequence[keras.Variable] = ()
) -> Callable[..., Any]:
    """Compile a function of any tensors, such as the step of a search, as the backend does it best.

    TensorFlow gets a graph that leaves free what changes between calls; JAX its `jit`, which
    compiles for each shape; and torch runs as it is.

    Args:
        function: takes and returns nests of tensors.
        variables: of the models that it uses, so that what changes later is seen.

    Returns:
        A function that gives the same.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False, reduce_retracing=True)
    if backend == "jax":
        return _compile_with_jax(function, variables)
    return function


def _compile_with_jax(
    function: Callable[..., Any], variables: Sequence[keras.Variable]
) -> Callable[..., Any]:
    """Hand the values of the variables in at each call: JAX would keep those of the first."""
    import jax

    @jax.jit
    def compiled(values: list[Tensor], *arguments: Any) -> Any:
        """Run the function with these values."""
        with keras.StatelessScope(zip(variables, values, strict=True)):
            return function(*arguments)

    return lambda *arguments: compiled([variable.value for variable in variables], *arguments)
