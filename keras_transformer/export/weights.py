"""Weights of a model as an export stores them."""

import contextlib

import keras
import tensorflow as tf

from keras_transformer.tasks import ModelTask


class _StoredWeights:
    """Variables that a SavedModel stores, and a scope in which the model uses them."""

    def __init__(self, model: keras.Model, optimize: str = "float32") -> None:
        self.variables: list[tf.Variable] = [weight.value for weight in model.weights]
        self._rounded: list[tuple[keras.Variable, tf.Variable]] = []
        # Matrices are rounded once, here, and cast back where they are used, so that computations keep the
        # model's dtype. Vectors (biases, scales) are small and sensitive, and are not rounded.
        for number, weight in enumerate(model.weights):
            if optimize == "bfloat16" and _is_matrix(weight.value):
                value = tf.cast(weight.value, tf.bfloat16)
                self.variables[number] = tf.Variable(value, trainable=False, name="rounded")
                self._rounded.append((weight, self.variables[number]))

    def scope(self) -> contextlib.AbstractContextManager[object]:
        """Return a context in which the model uses these variables."""
        mapping = [(weight, tf.cast(stored, weight.dtype)) for weight, stored in self._rounded]
        return keras.StatelessScope(mapping) if mapping else contextlib.nullcontext()


def _is_matrix(value: tf.Variable) -> bool:
    return value.dtype == tf.float32 and value.shape.rank >= 2


def _with_rounded_weights(task: ModelTask) -> ModelTask:
    """Return a copy of a task with the weights that a bfloat16 export computes with."""
    model = type(task.model).from_config(task.model.get_config())
    for weight, original in zip(model.weights, task.model.weights, strict=True):
        value = original.value
        if _is_matrix(value):
            value = tf.cast(tf.cast(value, tf.bfloat16), tf.float32)  # as the graph does
        weight.assign(value)
    return task.with_changes(model=model)
