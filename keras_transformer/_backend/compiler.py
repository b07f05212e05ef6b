"""Compilers of the backends: TensorFlow graphs, XLA and JAX's `jit`. Torch runs functions uncompiled."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import keras

from keras_transformer.types import Shape, Tensor

Output = TypeVar("Output")


def _in_compiler() -> bool:
    """Return whether the current trace is compiled by XLA, which knows every size at compile time."""
    # True on JAX, and in a TensorFlow graph for `jit_compile`, whose sizes may be unknown during tracing.
    if keras.backend.backend() != "tensorflow":
        return keras.backend.backend() == "jax"
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util  # no public API reports `jit_compile`

    return bool(control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


def _only_processors() -> bool:
    """Return whether the backend is TensorFlow and all its devices are CPUs."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return all(device.device_type == "CPU" for device in tf.config.list_logical_devices())


def compiles_each_shape() -> bool:
    """Return whether the training step is compiled again for each batch shape."""
    return keras.backend.backend() == "jax"


def begins_datasets_early() -> bool:
    """Return whether Keras starts iterating a dataset before the first epoch, to inspect a batch."""
    return keras.backend.backend() != "tensorflow"


def build_optimizer(model: keras.Model) -> None:
    """Create the optimizer's variables before TensorFlow traces the first step."""
    # A first step that creates them would be traced twice.
    if keras.backend.backend() == "tensorflow" and not model.optimizer.built:
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_variables)


def compile_function(
    function: Callable[..., Output],
    variables: Sequence[keras.Variable] = (),
    inputs: Sequence[tuple[Shape, str]] | None = (((None, None), "int32"),),
) -> Callable[..., Output]:
    """Compile a function; on torch, return it unchanged.

    Args:
        function: Function from tensors to tensors.
        variables: Variables that the function reads, so that later changes take effect.
        inputs: Shape and dtype of each argument. Defaults to one matrix of token ids. None for any nested
            tensors.

    Returns:
        A function with the same results.
    """
    if keras.backend.backend() == "jax":
        import jax

        # Values are passed at each call, because JAX would keep those of the first call as constants.
        @jax.jit
        def compiled(values: list[Tensor], *arguments: Any) -> Output:
            with keras.StatelessScope(zip(variables, values, strict=True)):
                return function(*arguments)

        return lambda *arguments: compiled([variable.value for variable in variables], *arguments)
    if keras.backend.backend() != "tensorflow":
        return function
    import tensorflow as tf

    if inputs is None:
        # After a few traces, sizes that change between calls become unknown sizes.
        return tf.function(function, autograph=False, reduce_retracing=True)
    # One graph with unknown sizes; JAX compiles for each shape.
    signature = [tf.TensorSpec(*each) for each in inputs]
    return tf.function(function, input_signature=signature, autograph=False)


@contextlib.contextmanager
def quick_start(num_texts: int) -> Iterator[None]:
    """Skip TensorFlow's graph optimization inside the context if there is only one text.

    With `saved_models/multi30k_en_de` optimization takes 0.7 s before the first output and saves 0.02 s with
    each.
    """
    if num_texts != 1:
        yield
        return
    import tensorflow as tf  # on any backend, because exports run on TensorFlow

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
