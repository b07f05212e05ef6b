"""A batch of training in parts, one for each core of the processor."""

from collections.abc import Sequence
from itertools import pairwise

import keras
from keras import ops

from keras_transformer.types import Tensor


def train_on_parts(
    model: keras.Model, num_parts: int, x: Tensor, y: Tensor, sample_weight: Tensor
) -> dict[str, Tensor]:
    """Do what Keras's `train_step` does, on parts of a batch; on TensorFlow.

    A step is that of the whole batch to rounding, since the loss tells how much each part counts.

    Args:
        model: compiled, with a loss that has the method `shares`, such as `training.MaskedCrossentropy`.
        num_parts: the number of parts; some are empty where there are too few examples.
        x: the inputs of the model.
        y: the labels.
        sample_weight: weights of the labels, or None.

    Returns:
        The metrics.

    Raises:
        ValueError: if the loss does not tell how much a part counts.
    """
    import tensorflow as tf

    num_examples = ops.shape(next(part for part in keras.tree.flatten(x) if part is not None))[0]
    bounds = [number * num_examples // num_parts for number in range(num_parts + 1)]
    parts = [
        keras.tree.map_structure(
            lambda rows, start=start, end=end: None if rows is None else rows[start:end],
            (x, y, sample_weight),
        )
        for start, end in pairwise(bounds)
    ]
    # The parts are chains of operations in one graph: with one thread for each operation and one chain for
    # each core, no core waits for the others before all gradients are there. With two threads for each
    # operation a step of a small model took 600 ms where half of it with one thread took 530, since threads
    # wait for each other at the end of each of some thousand operations.
    with tf.GradientTape() as tape:
        predictions = [model(part[0], training=True) for part in parts]
        loss = _loss_of_parts(model, parts, predictions)
        scaled_loss = model.optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled_loss, model.trainable_weights)
    model.optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
    for metric in model.metrics:
        if metric.name == "loss":
            metric.update_state(loss, sample_weight=num_examples)
    results = {}
    for (x, y, sample_weight), y_pred in zip(parts, predictions, strict=True):
        results = model.compute_metrics(x, y, y_pred, sample_weight)
    return results


def _loss_of_parts(model: keras.Model, parts: Sequence[Tensor], predictions: Sequence[Tensor]) -> Tensor:
    """Add up the losses, each as much as it counts."""
    if not hasattr(model.loss, "shares"):
        raise ValueError(
            "A batch is trained in parts only with a loss that says how much each counts, such as "
            f"`training.MaskedCrossentropy`. Received: loss={model.loss!r}."
        )
    shares = model.loss.shares([(y, sample_weight) for _, y, sample_weight in parts])
    losses = [
        share * model.compute_loss(x, y, y_pred, sample_weight, training=True)
        for share, (x, y, sample_weight), y_pred in zip(shares, parts, predictions, strict=True)
    ]
    return sum(losses[1:], start=losses[0])
