"""What no epoch can be made of."""

from typing import Any

import keras
import pytest
import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.training import MaskedCrossentropy
from keras_transformer.training.fitting import check_training_data, check_validation_weights

DATASET = tf.data.Dataset.range(6).batch(2)


@pytest.mark.parametrize("dataset", [DATASET, DATASET.filter(lambda _: True)])
def test_what_can_be_trained_on(dataset: Any) -> None:
    check_training_data(dataset, dataset)
    check_training_data(dataset, ([1], [2]))
    check_training_data(dataset)


@pytest.mark.parametrize(
    ("training", "validation", "error", "message"),
    [
        (([1], [2]), None, TypeError, r"`training` must be a dataset of batches.* Received: a tuple of 2\."),
        (DATASET.repeat(), None, ValueError, r"`training` must have an end.*leave out `\.repeat\(\)`"),
        (DATASET, DATASET.repeat(), ValueError, r"`validation` must have an end"),
        (iter([1]), None, TypeError, r"`training` must be .* each epoch can read anew.*class list_iterator"),
        (DATASET, (x for x in [1]), TypeError, r"`validation` must be .* each epoch.*class generator"),
        (DATASET.take(0), None, InputError, r"`training` must have at least one batch\. Received: 0 batches"),
        (DATASET, DATASET.take(0), InputError, r"`validation` must have at least one batch"),
    ],
)
def test_what_cannot(training: Any, validation: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check_training_data(training, validation)


def test_sample_weights_that_the_loss_would_not_divide_by() -> None:
    model = keras.Sequential([keras.Input((None,)), keras.layers.Embedding(7, 7)])
    labels = tf.ones((2, 3), "int32")
    weighed, plain = (
        tf.data.Dataset.from_tensors(parts) for parts in ((labels, labels, [1.0, 2.0]), (labels, labels))
    )
    model.compile(loss=MaskedCrossentropy(normalize=False))
    check_validation_weights(model, plain)
    check_validation_weights(model, None)
    with pytest.raises(ValueError, match="`validation` must be without sample weights where gradients"):
        check_validation_weights(model, weighed)
    model.compile(loss=MaskedCrossentropy())
    check_validation_weights(model, weighed)
