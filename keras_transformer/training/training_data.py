"""What `fit` can train on, checked before an epoch is spent on it."""

from collections.abc import Iterator
from typing import Any

import keras

from keras_transformer.errors import InputError

_INFINITE = -1  # what `cardinality` says of a dataset that is repeated for ever


def check_training_data(training: Any, validation: Any = None) -> None:
    """Refuse what no epoch can be made of.

    Args:
        training: a dataset of batches.
        validation: likewise, or None.

    Raises:
        TypeError: arrays or lists in the place of a dataset, or a generator, which only one epoch can read.
        ValueError: a dataset without an end.
        InputError: a dataset without a batch.
    """
    for name, dataset in (("training", training), ("validation", validation)):
        if isinstance(dataset, tuple | list) and name == "training":
            raise TypeError(
                "`training` must be a dataset of batches, such as "
                "tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(64). "
                f"Received: a {type(dataset).__name__} of {len(dataset)}."
            )
        if isinstance(dataset, Iterator):
            raise TypeError(
                f"`{name}` must be a dataset that each epoch can read anew, such as "
                "tf.data.Dataset.from_generator(function, ...). "
                f"Received: an iterator of class {type(dataset).__name__}."
            )
        num_batches = int(dataset.cardinality()) if hasattr(dataset, "cardinality") else None
        if num_batches == _INFINITE:
            raise ValueError(
                f"`{name}` must have an end, at which the epoch is saved: leave out `.repeat()`. "
                "Received: a dataset of infinite cardinality."
            )
        if num_batches == 0:
            raise InputError(f"`{name}` must have at least one batch. Received: 0 batches.")


def check_validation_weights(model: keras.Model, validation: Any) -> None:
    """Refuse sample weights of a validation that the loss would not divide by.

    Args:
        model: compiled.
        validation: a dataset of batches, or None.

    Raises:
        ValueError: the loss takes sample weights for shares, as under gradient accumulation, and the
            validation has some: its loss would be a sum.
    """
    has_weights = isinstance(spec := getattr(validation, "element_spec", None), tuple) and len(spec) == 3
    if has_weights and not getattr(model.loss, "normalize", True):
        raise ValueError(
            "`validation` must be without sample weights where gradients are accumulated: the loss takes "
            "them for shares of an update. Received: batches of inputs, labels and sample weights."
        )
