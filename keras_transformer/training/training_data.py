"""What `fit` can train on, checked before an epoch is spent on it."""

from typing import Any

from keras_transformer.errors import InputError

_INFINITE = -1  # what `cardinality` says of a dataset that is repeated for ever


def check_training_data(training: Any, validation: Any = None) -> None:
    """Refuse what no epoch can be made of.

    Args:
        training: a dataset of batches.
        validation: likewise, or None.

    Raises:
        TypeError: arrays or lists in the place of a dataset.
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
        num_batches = int(dataset.cardinality()) if hasattr(dataset, "cardinality") else None
        if num_batches == _INFINITE:
            raise ValueError(
                f"`{name}` must have an end, at which the epoch is saved: leave out `.repeat()`. "
                "Received: a dataset of infinite cardinality."
            )
        if num_batches == 0:
            raise InputError(f"`{name}` must have at least one batch. Received: 0 batches.")
