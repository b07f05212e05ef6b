"""The compiler of each backend: TensorFlow's graphs, XLA, JAX's `jit`. Torch runs functions as they are."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import keras

from keras_transformer.types import Tensor

Constants = TypeVar("Constants")
Output = TypeVar("Output")
State = TypeVar("State")


def in_compiler() -> bool:
    """Return whether what is traced now goes to XLA, so that every size is known when it is compiled.

    That is so with JAX, and in a graph of TensorFlow that is made for `jit_compile`, even if a size is not
    known while it is traced.
    """
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


def compile_function(
    function: Callable[..., Output], variables: Sequence[keras.Variable] = (), num_inputs: int = 1
) -> Callable[..., Output]:
    """Compile a function of token ids.

    TensorFlow gets one graph in which both sizes stay free, JAX compiles for each shape.

    Args:
        function: takes int32 `(b, s)`, as often as `num_inputs` says, and returns tensors.
        variables: of the models that it uses, so that what changes later is seen.
        num_inputs: the number of matrices of token ids, each of its own size.

    Returns:
        A function that returns the same.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        signature = [tf.TensorSpec([None, None], tf.int32)] * num_inputs
        return tf.function(function, input_signature=signature, autograph=False)
    return _compile_with_jax(function, variables) if backend == "jax" else function


def compile_rounds(
    begin: Callable[[Tensor], tuple[Constants, Tensor]],
    advance: Callable[[Constants, State], State],
    variables: Sequence[keras.Variable] = (),
) -> Callable[[Tensor], tuple[Tensor, Callable[[State], State]]]:
    """Compile a loop whose rounds Python asks for one by one.

    It is `constants, first = begin(inputs)`, then `state = advance(constants, state)` again and again.
    Constants need not be tensors, so no graph can return them: each round has a `begin` of its own, of which
    the compiler leaves out what only `first` needs. Torch, which compiles nothing, keeps the constants.

    Args:
        begin: from inputs to constants and a nest of tensors, without side effects.
        advance: from the constants and a nest of tensors to one of the same structure.
        variables: of the models that it uses, so that what changes later is seen.

    Returns:
        A function of the inputs, which returns `first`, and a function from one state to the next.
    """

    def start(inputs: Tensor) -> tuple[Tensor, Callable[[State], State]]:
        """Run both functions as they are."""
        constants, first = begin(inputs)
        return first, lambda state: advance(constants, state)

    backend = keras.backend.backend()
    if backend == "torch":
        return start

    def compiled(function: Callable[..., Output]) -> Callable[..., Output]:
        """Leave free what changes between calls; JAX compiles for each shape."""
        if backend == "jax":
            return _compile_with_jax(function, variables)
        import tensorflow as tf

        return tf.function(function, autograph=False, reduce_retracing=True)

    first_of = compiled(lambda inputs: begin(inputs)[1])
    next_of = compiled(lambda inputs, state: advance(begin(inputs)[0], state))
    return lambda inputs: (first_of(inputs), lambda state: next_of(inputs, state))


def _compile_with_jax(
    function: Callable[..., Output], variables: Sequence[keras.Variable]
) -> Callable[..., Output]:
    """Hand the values of the variables in at each call: JAX would keep those of the first."""
    import jax

    @jax.jit
    def compiled(values: list[Tensor], *arguments: Tensor) -> Output:
        """Run the function with these values."""
        with keras.StatelessScope(zip(variables, values, strict=True)):
            return function(*arguments)

    return lambda *arguments: compiled([variable.value for variable in variables], *arguments)
