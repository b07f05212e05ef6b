"""Compiled token functions of a task: arrays in, arrays out."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer._backend import compile_function
from keras_transformer.decoding import SearchResult


class _CompiledFunctions:
    """Token functions of a task, each compiled by the backend on its first call."""

    def __init__(self, functions: Any, model: keras.Model) -> None:
        self._functions = functions
        self._variables = getattr(model, "variables", ())
        self._compiled: dict[str, Callable[..., Any]] = {}

    def predict(self, inputs: Sequence[object]) -> np.ndarray:
        """Return the logits of a classifier or tagger."""
        logits: np.ndarray = self._call("predict", inputs)
        return logits

    def find(self, inputs: Sequence[object], source_numbers: Sequence[int]) -> SearchResult:
        """Generate hypotheses; the numbers identify the sources when a search samples."""
        found: SearchResult = self._call("find", inputs, np.asarray(source_numbers, "int32"))
        return found

    def score(self, inputs: Sequence[object], target_ids: object) -> Sequence[np.ndarray]:
        """Score targets."""
        scores: Sequence[np.ndarray] = self._call("score", inputs, target_ids)
        return scores

    def attend(self, inputs: Sequence[object], target_ids: object) -> np.ndarray:
        """Return the attention of targets."""
        attention: np.ndarray = self._call("attend", inputs, target_ids)
        return attention

    def _call(self, name: str, inputs: Sequence[object], *others: object) -> Any:
        given = [np.asarray(array) for array in (*inputs, *others)]
        dtypes = [{"f": "float32", "b": "bool"}.get(array.dtype.kind, "int32") for array in given]
        if name not in self._compiled:
            # Only the width of frames (b, s, w) is static.
            shapes = [(*(None, None)[: array.ndim], *array.shape[2:]) for array in given]
            function, size = getattr(self._functions, name), len(inputs)
            self._compiled[name] = compile_function(
                lambda *arrays: function(arrays[:size], *arrays[size:]),
                self._variables,
                [*zip(shapes, dtypes, strict=True)],
            )
        found = self._compiled[name](*map(ops.convert_to_tensor, given, dtypes))
        return keras.tree.map_structure(ops.convert_to_numpy, found)
