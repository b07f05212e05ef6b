"""A batch of training in parts, each of which a core of the processor works on by itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

import keras
from keras import ops

from keras_transformer.types import Tensor

_num_parts: ContextVar[int] = ContextVar("num_parts", default=1)


@contextmanager
def batch_parts(num_parts: int) -> Iterator[None]:
    """Train models inside on so many parts of each batch; TensorFlow computes them at the same time.

    Args:
        num_parts: above zero; 1 for the usual step.

    Yields:
        nothing.
    """
    token = _num_parts.set(num_parts)
    try:
        yield
    finally:
        _num_parts.reset(token)


def num_batch_parts() -> int:
    """Give the number of parts that batches have here; 1 outside of `batch_parts`."""
    return _num_parts.get()


class BatchParts:
    """Mixed into a Keras model, this trains it on parts of each batch within `batch_parts`; on TensorFlow.

    All models here have it, and `training.distributed("cores")` is the way to use it. The parts are chains of
    operations that do not wait for each other: with one thread for each operation and one chain for each
    core, no core waits for the others before all gradients are there. A step is that of the whole batch to
    rounding: the loss has to say how much the parts count, `shares`, as `training.MaskedCrossentropy` does.
    """

    def train_step(self, *arguments: Any) -> Any:
        """Train on one batch; Keras calls this.

        Args:
            *arguments: the batch, as `fit` hands it over; on JAX the state before it.

        Returns:
            The metrics; on JAX the state after them.

        Raises:
            ValueError: a loss that cannot say how much a part counts.
        """
        if num_batch_parts() == 1 or keras.backend.backend() != "tensorflow":
            keras_model: Any = super()  # since this class stands before it
            return keras_model.train_step(*arguments)
        return self._train_on_parts(*keras.utils.unpack_x_y_sample_weight(*arguments))

    def _train_on_parts(self, x: Any, y: Any, sample_weight: Any) -> Any:
        """Do what Keras's step does, but for the parts."""
        import tensorflow as tf

        this: Any = self
        num_rows = ops.shape(next(rows for rows in keras.tree.flatten(x) if rows is not None))[0]
        parts = _split((x, y, sample_weight), num_rows, num_batch_parts())
        with tf.GradientTape() as tape:
            predictions = [this(part[0], training=True) for part in parts]
            loss = self._loss_of_parts(parts, predictions)
            scaled_loss = this.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled_loss, this.trainable_weights)
        this.optimizer.apply_gradients(zip(gradients, this.trainable_weights, strict=True))
        for metric in this.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=num_rows)
        results: Any = {}
        for (x, y, sample_weight), y_pred in zip(parts, predictions, strict=True):
            results = this.compute_metrics(x, y, y_pred, sample_weight)
        return results

    def _loss_of_parts(self, parts: list[Any], predictions: list[Any]) -> Tensor:
        """Add up the losses, each as much as it counts."""
        this: Any = self
        if not hasattr(this.loss, "shares"):
            raise ValueError(
                "A batch is trained in parts only with a loss that says how much each counts, such as "
                f"`training.MaskedCrossentropy`. Received: loss={this.loss!r}."
            )
        shares = this.loss.shares([(y, sample_weight) for _, y, sample_weight in parts])
        losses = [
            share * this.compute_loss(x, y, y_pred, sample_weight, training=True)
            for share, (x, y, sample_weight), y_pred in zip(shares, parts, predictions, strict=True)
        ]
        return sum(losses[1:], start=losses[0])


def _split(batch: Any, num_rows: Any, num_parts: int) -> list[Any]:
    """Cut all tensors of a batch between the same rows; parts are empty where there are too few."""
    bounds = [number * num_rows // num_parts for number in range(num_parts + 1)]

    def part(start: Any, end: Any) -> Any:
        return keras.tree.map_structure(lambda rows: None if rows is None else rows[start:end], batch)

    return [part(*ends) for ends in pairwise(bounds)]
