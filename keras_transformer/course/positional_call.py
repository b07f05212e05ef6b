"""The call style of the courses: `layer(x, True, mask)`."""

import inspect
from typing import Any

import keras


class PositionalCall(keras.layers.Layer):
    """Lets a layer take every argument of `call` by position.

    Keras 3 refuses a Python bool by position ("Only input tensors may be
    passed as positional arguments"), and the courses pass `training` so. Here
    the arguments are bound to the signature of `call`, and all but the first
    are passed on by keyword.

    Args:
        **kwargs: `name` and `dtype` of a Keras layer.

    Example:
        >>> class Gate(PositionalCall):
        ...     def call(self, x, training=None, scale=1.0):
        ...         return x * scale if training else x
        >>> float(Gate()(keras.ops.ones(()), True, 3.0))
        3.0
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer.

        Args:
            *args: the arguments of `call` by position.
            **kwargs: the others by keyword.

        Returns:
            What `call` returns.

        Raises:
            TypeError: an argument that `call` does not have, or one that is
                missing or given twice.
        """
        arguments = inspect.signature(self.call).bind(*args, **kwargs).arguments
        (_, first), *others = arguments.items()
        return super().__call__(first, **dict(others))
