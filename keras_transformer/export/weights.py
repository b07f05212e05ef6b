"""The weights of a model as an export stores them."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import keras
import tensorflow as tf

from keras_transformer.decoding.text_generator import TextGenerator
from keras_transformer.decoding.translator import Translator
from keras_transformer.layers.token_embedding import OutputProjection

_AnyTranslator = TypeVar("_AnyTranslator", bound=Translator | TextGenerator)


class _StoredWeights:
    """Variables that a SavedModel holds, and a model that computes with them."""

    def __init__(self, model: keras.Model, *, bfloat16: bool = False) -> None:
        self.variables: list[tf.Variable] = [weight.value for weight in model.weights]
        self._rounded: list[tuple[keras.Variable, tf.Variable]] = []
        # Matrices are rounded once, here, and cast back where they are used, so that sums and products stay
        # those of the model's dtype. Vectors (biases, scales) stay, since they weigh little and matter much.
        for number, weight in enumerate(model.weights):
            if bfloat16 and _is_matrix(weight.value):
                value = tf.cast(weight.value, tf.bfloat16)
                self.variables[number] = tf.Variable(value, trainable=False, name="rounded")
                self._rounded.append((weight, self.variables[number]))
        # To transpose a table takes longer than several steps of a small model.
        layers = [each.output_projection for each in getattr(model, "members", [model])]
        self._tied = [layer for layer in layers if layer.embedding is not None]
        self.matrices = [
            _Computed(partial(self._matrix, layer), number) for number, layer in enumerate(self._tied)
        ]

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Let the model read these variables, and the transposed tables."""
        with contextlib.ExitStack() as stack:
            for layer, matrix in zip(self._tied, self.matrices, strict=True):
                stack.enter_context(layer.reading(matrix.read))
            stack.enter_context(self._mapped())
            yield

    def _mapped(self) -> contextlib.AbstractContextManager[object]:
        mapping = [(weight, tf.cast(stored, weight.dtype)) for weight, stored in self._rounded]
        return keras.StatelessScope(mapping) if mapping else contextlib.nullcontext()

    def _matrix(self, layer: OutputProjection) -> tf.Tensor:
        with self._mapped():
            return layer.flat()[0]


class _Computed(tf.saved_model.experimental.TrackableResource):
    """A variable that a SavedModel computes when it is loaded: it needs memory, and no room on the disk."""

    def __init__(self, compute: Callable[[], tf.Tensor], number: int) -> None:
        super().__init__()
        self._compute = tf.function(compute, input_signature=[], autograph=False)
        self._spec = self._compute.get_concrete_function().structured_outputs
        self._name = f"computed_{number}"
        self._handle = self.resource_handle  # made now, and not in the graph that reads it

    def _create_resource(self) -> tf.Tensor:
        # A graph finds it by its name. In Python it has none, which TensorFlow writes so: two models that are
        # loaded would share it.
        has_name = not (tf.executing_eagerly() or tf.inside_function())
        name = self._name if has_name else "cd2c89b7-88b7-44c8-ad83-06c2a9158347"
        return tf.raw_ops.VarHandleOp(dtype=self._spec.dtype, shape=self._spec.shape, shared_name=name)

    def _initialize(self) -> None:
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=self._compute())

    def read(self) -> tf.Tensor:
        """Return the tensor."""
        value = tf.raw_ops.ReadVariableOp(resource=self._handle, dtype=self._spec.dtype)
        value.set_shape(self._spec.shape)
        return value


def _is_matrix(value: tf.Variable) -> bool:
    return value.dtype == tf.float32 and value.shape.rank >= 2


def _rounded(translator: _AnyTranslator) -> _AnyTranslator:
    """Copy a translator, with the weights that a bfloat16 export computes with."""
    model = type(translator.model).from_config(translator.model.get_config())
    for weight, original in zip(model.weights, translator.model.weights, strict=True):
        value = original.value
        if _is_matrix(value):
            value = tf.cast(tf.cast(value, tf.bfloat16), tf.float32)  # as the graph casts them back
        weight.assign(value)
    return _changed(translator, model=model)


def _changed(translator: _AnyTranslator, **changes: object) -> _AnyTranslator:
    """Copy a translator, with other arguments."""
    return type(translator)(**{**translator.arguments, **changes})
