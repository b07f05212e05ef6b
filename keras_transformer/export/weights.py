"""The weights of a model as an export stores them."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import keras
import tensorflow as tf

from keras_transformer._backend import RowProduct
from keras_transformer.decoding.text_generator import TextGenerator
from keras_transformer.decoding.translator import Translator
from keras_transformer.export.row_products import _FusedProduct

# Numbers of a matrix from which a variable that takes time to load saves time.
_MANY = 2**19
# Rows so far apart, or a multiple, share few lines of a cache; one more in each mends it. XLA packs them.
_CROWDED, _LINE = 512, 16
_AnyTranslator = TypeVar("_AnyTranslator", bound=Translator | TextGenerator)


class _StoredWeights:
    """Variables that a SavedModel holds, and a model that computes with them."""

    def __init__(self, model: keras.Model, optimize: str = "float32", threads: int | None = None) -> None:
        self.variables: list[tf.Variable] = [weight.value for weight in model.weights]
        self._rounded: list[tuple[keras.Variable, tf.Variable]] = []
        # Matrices are rounded once, here, and cast back where they are used, so that sums and products stay
        # those of the model's dtype. Vectors (biases, scales) stay, since they weigh little and matter much.
        for number, weight in enumerate(model.weights):
            if optimize == "bfloat16" and _is_matrix(weight.value):
                value = tf.cast(weight.value, tf.bfloat16)
                self.variables[number] = tf.Variable(value, trainable=False, name="rounded")
                self._rounded.append((weight, self.variables[number]))
        self._optimize = optimize
        self._product_of = _FusedProduct if threads and optimize != "xla" else RowProduct
        self._computed: dict[tuple[keras.layers.Layer, ...], list[_Computed]] = {}

    @property
    def computed(self) -> list["_Computed"]:
        """What the graphs that were traced read besides, computed when they are loaded."""
        return [each for group in self._computed.values() for each in group]

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Let the model read these variables, and compute with what is made of them once."""
        with RowProduct.made_by(self._product), self._mapped():
            yield

    def _mapped(self) -> contextlib.AbstractContextManager[object]:
        mapping = [(weight, tf.cast(stored, weight.dtype)) for weight, stored in self._rounded]
        return keras.StatelessScope(mapping) if mapping else contextlib.nullcontext()

    def _product(
        self, layers: tuple[keras.layers.Layer, ...], flat: Callable[[], Any]
    ) -> Callable[[tf.Tensor], tf.Tensor]:
        matrix, bias, *table = flat()
        is_float, size = matrix.dtype == tf.float32, math.prod(matrix.shape)
        if is_float and size >= _MANY and matrix.shape[1] % _CROWDED == 0 and self._optimize != "xla":
            [spread] = self._read(layers, 1, lambda: [tf.pad(flat()[0], [[0, 0], [0, _LINE]])])
            product = self._product_of(spread, None if bias is None else tf.pad(bias, [[0, _LINE]]))
            return lambda rows: product(rows)[:, : matrix.shape[1]]
        # To transpose a table takes longer than several steps of a small model.
        if any(each is not None for each in table):
            [matrix] = self._read(layers, 1, flat)
        return self._product_of(matrix, bias, *table)

    def _read(
        self, layers: tuple[keras.layers.Layer, ...], count: int, compute: Callable[[], Sequence[tf.Tensor]]
    ) -> list[tf.Tensor]:
        """Return the first tensors that are computed from layers, when the SavedModel is loaded."""

        def part(number: int) -> tf.Tensor:
            with self._mapped():
                return compute()[number]

        if layers not in self._computed:
            first = len(self.computed)
            with tf.init_scope():  # not in the graph that reads them
                self._computed[layers] = [
                    _Computed(partial(part, number), first + number) for number in range(count)
                ]
        return [each.read() for each in self._computed[layers]]


class _Computed(tf.saved_model.experimental.TrackableResource):
    """A variable that a SavedModel computes when it is loaded: it needs memory, and no room on the disk."""

    def __init__(self, compute: Callable[[], tf.Tensor], number: int) -> None:
        super().__init__()
        self._compute = tf.function(compute, input_signature=[], autograph=False)
        self._spec = self._compute.get_concrete_function().structured_outputs
        self.dtype = self._spec.dtype
        self._name = f"computed_{number}"
        self._handle = self.resource_handle  # made now, and not in the graph that reads it

    def _create_resource(self) -> tf.Tensor:
        # A graph finds it by its name, which becomes another one in each model that is loaded. Here it has
        # none, which TensorFlow writes so: two exports would share it.
        name = "cd2c89b7-88b7-44c8-ad83-06c2a9158347" if tf.executing_eagerly() else self._name
        return tf.raw_ops.VarHandleOp(dtype=self.dtype, shape=self._spec.shape, shared_name=name)

    def _initialize(self) -> None:
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=self._compute())

    def read(self) -> tf.Tensor:
        """Return the tensor."""
        value = tf.raw_ops.ReadVariableOp(resource=self._handle, dtype=self.dtype)
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
