"""What no epoch can be made of."""

from typing import Any

import pytest
import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.training.training_data import check_training_data

DATASET = tf.data.Dataset.range(6).batch(2)


@pytest.mark.parametrize("dataset", [DATASET, DATASET.filter(lambda _: True), iter([1])])
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
        (DATASET.take(0), None, InputError, r"`training` must have at least one batch\. Received: 0 batches"),
        (DATASET, DATASET.take(0), InputError, r"`validation` must have at least one batch"),
    ],
)
def test_what_cannot(training: Any, validation: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check_training_data(training, validation)
