"""Models whose weights have shapes, and no values."""

import contextlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import keras
from keras.src.backend.common import global_state  # nothing public tells of weights that wait for values

_WAITING = "uninitialized_variables"


@contextlib.contextmanager
def shapes_only() -> Iterator[None]:
    """Make models whose weights have a shape and a dtype, and no values.

    Such a model takes no memory to speak of, however large it is: `training.memory_plan` reads its sizes, and
    `jax.jit(...).lower` takes its shapes. It can neither compute nor be saved.

    Returns:
        A context manager; make the model inside.

    Example:
        >>> with shapes_only():
        ...     layer = keras.layers.Dense(100_000)
        ...     layer.build((None, 100_000))
        >>> layer.count_params()
        10000100000
    """
    waiting = [*global_state.get_global_attribute(_WAITING, [])]
    device = keras.device("meta") if keras.backend.backend() == "torch" else contextlib.nullcontext()
    try:
        # Keras leaves a weight that is made in such a scope without a value until the scope ends.
        with device, keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        # Else it would get one at the end of the next scope, wherever that is.
        global_state.set_global_attribute(_WAITING, waiting)


def makes_values() -> bool:
    """Return whether a weight that is made now gets its value at once."""
    return global_state.get_global_attribute("stateless_scope") is None


def optimizer_state(
    optimizer: keras.optimizers.Optimizer, variables: Sequence[keras.Variable]
) -> list[keras.Variable]:
    """Return the variables, without values, that another optimizer of this kind keeps for some weights."""
    other = type(optimizer).from_config(optimizer.get_config())
    # Of a weight itself TensorFlow's optimizers take the value, the key, and the device, to put theirs there.
    described = [
        SimpleNamespace(
            **{name: getattr(each, name) for name in ("shape", "dtype", "path", "name")},
            _unique_id=each.path,
            device=None,
        )
        for each in variables
    ]
    with shapes_only():
        other.build(described)
    return list(other.variables)
