"""Compiled functions of a model: arrays in, arrays out."""

from collections.abc import Callable, Sequence

import keras
import numpy as np
from keras import ops

from keras_transformer._backend import compile_function
from keras_transformer.types import Tensor


class CompiledModel:
    """Functions of a model, each compiled by the backend on its first call."""

    def __init__(self, model: keras.Model) -> None:
        self._variables = getattr(model, "variables", ())
        self._compiled: dict[str, Callable[..., Sequence[Tensor]]] = {}

    def call(
        self, name: str, function: Callable[..., Sequence[Tensor]], inputs: Sequence[object], *others: object
    ) -> list[np.ndarray]:
        """Call `function` on the model's inputs and other arrays; `name` identifies its compiled version."""
        given = [np.asarray(array) for array in (*inputs, *others)]
        dtypes = [{"f": "float32", "b": "bool"}.get(array.dtype.kind, "int32") for array in given]
        if name not in self._compiled:
            # Only the width of frames (b, s, w) is static.
            shapes = [(None, None, *array.shape[2:]) for array in given]
            size = len(inputs)
            self._compiled[name] = compile_function(
                lambda *arrays: function(arrays[:size], *arrays[size:]),
                self._variables,
                [*zip(shapes, dtypes, strict=True)],
            )
        found = self._compiled[name](*map(ops.convert_to_tensor, given, dtypes))
        return [ops.convert_to_numpy(each) for each in found]
