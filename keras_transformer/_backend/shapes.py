"""Models with weight shapes, but without weight values."""

import contextlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import keras
from keras.src.backend.common import global_state  # no public API lists uninitialized variables

_UNINITIALIZED = "uninitialized_variables"


@contextlib.contextmanager
def shapes_only() -> Iterator[None]:
    """Create models whose weights have shapes and dtypes, but no values.

    Such a model needs almost no memory, however large it is. Use it for `training.memory_plan` or
    `jax.jit(...).lower`. It can neither compute nor be saved.

    Returns:
        A context manager; create the model inside.

    Example:
        >>> with shapes_only():
        ...     layer = keras.layers.Dense(100_000)
        ...     layer.build((None, 100_000))
        >>> layer.count_params()
        10000100000
    """
    waiting = [*global_state.get_global_attribute(_UNINITIALIZED, [])]
    device = keras.device("meta") if keras.backend.backend() == "torch" else contextlib.nullcontext()
    try:
        # Inside this scope Keras creates weights without values, and lists them to be initialized later.
        with device, keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        # Remove them from the list, else the end of the next scope would initialize them.
        global_state.set_global_attribute(_UNINITIALIZED, waiting)


def makes_values() -> bool:
    """Return whether new weights get values, which they do outside `shapes_only`."""
    return global_state.get_global_attribute("stateless_scope") is None


def optimizer_state(
    optimizer: keras.optimizers.Optimizer, variables: Sequence[keras.Variable]
) -> list[keras.Variable]:
    """Return the variables, without values, that an optimizer of this kind would create for `variables`."""
    other = type(optimizer).from_config(optimizer.get_config())
    # Stand-ins with the attributes that optimizers read; TensorFlow's also read the id and the device.
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
