"""The compiler of each backend: TensorFlow's graphs, XLA, JAX's `jit`. Torch runs functions as they are."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import keras

from keras_transformer.types import Shape, Tensor

Output = TypeVar("Output")


def _in_compiler() -> bool:
    """Return whether what is traced now goes to XLA, so that every size is known when it is compiled."""
    # That is so with JAX, and in a graph of TensorFlow that is made for `jit_compile`, even if a size is not
    # known while it is traced.
    if keras.backend.backend() != "tensorflow":
        return keras.backend.backend() == "jax"
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util  # nothing public tells of `jit_compile`

    return bool(control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


def _only_processors() -> bool:
    """Return whether TensorFlow is the backend and has no device but processors."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return all(device.device_type == "CPU" for device in tf.config.list_logical_devices())


def compiles_each_shape() -> bool:
    """Return whether a step of training is compiled again for each shape of a batch."""
    return keras.backend.backend() == "jax"


def begins_datasets_early() -> bool:
    """Return whether Keras begins a dataset once before the first epoch, to see what its batches are like."""
    return keras.backend.backend() != "tensorflow"


def build_optimizer(model: keras.Model) -> None:
    """Make the variables of an optimizer that a graph of TensorFlow is about to use."""
    # A first step that makes them is traced twice.
    if keras.backend.backend() == "tensorflow" and not model.optimizer.built:
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_variables)


def compile_function(
    function: Callable[..., Output],
    variables: Sequence[keras.Variable] = (),
    inputs: Sequence[tuple[Shape, str]] | None = (((None, None), "int32"),),
) -> Callable[..., Output]:
    """Compile a function; torch, which compiles nothing, gets the function itself.

    Args:
        function: takes tensors and returns tensors.
        variables: of the models that it uses, so that what changes later is seen.
        inputs: the shape and dtype of each tensor that it takes, one matrix of token ids if not given; None
            for nests of any tensors.

    Returns:
        A function that returns the same.
    """
    if keras.backend.backend() == "jax":
        import jax

        # The values of the variables are handed in at each call: JAX would keep those of the first.
        @jax.jit
        def compiled(values: list[Tensor], *arguments: Any) -> Output:
            with keras.StatelessScope(zip(variables, values, strict=True)):
                return function(*arguments)

        return lambda *arguments: compiled([variable.value for variable in variables], *arguments)
    if keras.backend.backend() != "tensorflow":
        return function
    import tensorflow as tf

    if inputs is None:
        # What changes between calls is left free, after a few traces.
        return tf.function(function, autograph=False, reduce_retracing=True)
    # One graph in which the sizes stay free, where JAX compiles for each shape.
    signature = [tf.TensorSpec(*each) for each in inputs]
    return tf.function(function, input_signature=signature, autograph=False)


@contextlib.contextmanager
def quick_start(num_texts: int) -> Iterator[None]:
    """Answer a single text without TensorFlow's optimization of the graph.

    With `saved_models/multi30k_en_de` it takes 0.7 s before the first answer, and gains 0.02 s with each.
    """
    if num_texts != 1:
        yield
        return
    import tensorflow as tf  # with any backend, since an export runs on TensorFlow

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
