"""The weights of a model as an export stores them."""

import contextlib
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.decoding import Translator


class StoredWeights:
    """Variables that a SavedModel holds, and a model that computes with them.

    Args:
        model: of the TensorFlow backend.
        bfloat16: whether matrices are stored in half the size. They are rounded once, here, and cast
            back where they are used: sums and products stay those of the model's dtype. Vectors
            (biases, scales) stay as they are, since they weigh little and matter much.

    Raises:
        ValueError: the model's variables are not those of TensorFlow.
    """

    def __init__(self, model: keras.Model, *, bfloat16: bool = False) -> None:
        self._weights = list(model.weights)
        values = [weight.value for weight in self._weights]
        if not all(isinstance(value, tf.Variable) for value in values):
            raise ValueError(
                "`translator` must hold a model of the TensorFlow backend. "
                f"Received: variables of {type(values[0])}."
            )
        self._is_rounded = [bfloat16 and is_matrix(value) for value in values]
        self.variables = [
            tf.Variable(tf.cast(value, tf.bfloat16), trainable=False, name="rounded") if is_rounded else value
            for value, is_rounded in zip(values, self._is_rounded, strict=True)
        ]

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Let the model read these variables.

        Returns:
            A context in which to call the model.
        """
        if not any(self._is_rounded):
            return contextlib.nullcontext()
        weights = zip(self._weights, self.variables, self._is_rounded, strict=True)
        mapping = [
            (weight, tf.cast(stored, weight.dtype)) for weight, stored, is_rounded in weights if is_rounded
        ]
        return keras.StatelessScope(state_mapping=mapping)


def is_matrix(value: tf.Variable) -> bool:
    """Say whether a variable is worth rounding.

    Args:
        value: of any shape.

    Returns:
        True for float32 of rank 2 and above.
    """
    return value.dtype == tf.float32 and value.shape.rank >= 2


def rounded(translator: Translator) -> Translator:
    """Copy a translator, with the weights that a bfloat16 export computes with.

    Args:
        translator: whose tokenizers and search are shared.

    Returns:
        A translator of the same class, with a model of its own.
    """
    model = type(translator.model).from_config(translator.model.get_config())
    for weight, original in zip(model.weights, translator.model.weights, strict=True):
        value = original.value
        if is_matrix(value):
            value = tf.cast(tf.cast(value, tf.bfloat16), tf.float32)
        weight.assign(value)
    return type(translator)(
        model,
        translator.source_tokenizer,
        translator.target_tokenizer,
        search=translator.search,
        max_source_length=translator.max_source_length,
        max_target_length=translator.max_target_length,
    )
