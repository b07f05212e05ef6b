"""Training on all CPU cores, each on a part of each batch (TensorFlow).

Milliseconds per step with and without, measured on two idle cores: `small` 559 and 612, 1,061 and 1,205,
1,106 and 1,409; `base` 858 and 974, 1,829 and 2,129, 1,784 and 2,132.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import keras
from keras import ops

from keras_transformer.errors import InputError
from keras_transformer.types import Tensor

# Function of labels `(b, t)`, the padding label, and sample weights or None, to the weight of each token.
TokenWeights: TypeAlias = Callable[[Tensor, int, Tensor | None], Tensor]


class _BatchPart(NamedTuple):
    """Rows of a batch that one core trains on."""

    x: Tensor | dict[str, Tensor]
    y: Tensor
    sample_weight: Tensor | None


def train_on_cores(
    kinds: Sequence[type[keras.Model]], token_weights: TokenWeights
) -> AbstractContextManager[None]:
    """Train on all CPU cores inside the returned context, each on a part of each batch.

    A step equals that of the whole batch up to rounding, because each part is weighted by its tokens. The
    cores are claimed at once and for the rest of the process.

    Args:
        kinds: Classes of the models to train. Their losses must have `pad_id` and `normalize`, as
            `MaskedCrossentropy` does.
        token_weights: Function that returns the weight of each token.

    Returns:
        A context manager.

    Raises:
        InputError: If TensorFlow has already started with other thread settings.
    """
    return _trained_in_parts(_claim_cores(), kinds, token_weights)


@contextmanager
def _trained_in_parts(
    num_parts: int, kinds: Sequence[type[keras.Model]], token_weights: TokenWeights
) -> Iterator[None]:
    def train_step(model: keras.Model, data: tuple[Any, ...]) -> dict[str, Tensor]:
        return _train_step(model, _split_batch(num_parts, data), token_weights)

    # Sets `train_step` on the classes, so that no other file handles parts. The threads, too, are those of
    # the whole process, whatever model trains.
    for kind in kinds:
        kind.train_step = train_step
    try:
        yield
    finally:
        for kind in kinds:
            del kind.train_step


def _claim_cores() -> int:
    """Make TensorFlow run each operation on one core, one operation per core; return the number of cores."""
    import tensorflow as tf

    # TensorFlow cannot undo this. It is not the default, because searches then run on one core.
    num_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threading = tf.config.threading
    if (1, num_cores) != (
        threading.get_intra_op_parallelism_threads(),
        threading.get_inter_op_parallelism_threads(),
    ):
        try:
            threading.set_intra_op_parallelism_threads(1)
            threading.set_inter_op_parallelism_threads(num_cores)
        except RuntimeError as error:
            raise InputError(
                "TensorFlow has begun to compute with other threads. Call "
                f'kt.training.distributed("cores") before anything else. TensorFlow: {error}'
            ) from error
    return num_cores


def _split_batch(num_parts: int, data: tuple[Any, ...]) -> list[_BatchPart]:
    """Split a batch into parts; some are empty if there are too few examples."""
    batch = keras.utils.unpack_x_y_sample_weight(data)
    num_examples = _num_examples(batch)
    bounds = [number * num_examples // num_parts for number in range(num_parts + 1)]
    return [
        _BatchPart(
            *keras.tree.map_structure(
                lambda rows, start=start, end=end: None if rows is None else rows[start:end], batch
            )
        )
        for start, end in pairwise(bounds)
    ]


def _num_examples(batch: tuple[Any, ...]) -> Tensor:
    return ops.shape(next(rows for rows in keras.tree.flatten(batch) if rows is not None))[0]


def _train_step(
    model: keras.Model, parts: Sequence[_BatchPart], token_weights: TokenWeights
) -> dict[str, Tensor]:
    """Do what Keras's `train_step` does, on parts of the batch; return the metrics."""
    import tensorflow as tf

    # The parts are independent chains of operations in one graph, so that with one thread per operation each
    # core computes one chain, and waits for the others only when all gradients are needed. Two threads per
    # operation wait for each other after each of some thousand operations: a step of a small model took 600
    # ms, where half of it with one thread took 530 ms.
    with tf.GradientTape() as tape:
        predictions = [model(part.x, training=True) for part in parts]
        losses = [
            share * model.compute_loss(part.x, part.y, y_pred, part.sample_weight, training=True)
            for share, part, y_pred in zip(
                _loss_factors(model.loss, parts, token_weights), parts, predictions, strict=True
            )
        ]
        loss = sum(losses[1:], start=losses[0])
        scaled_loss = model.optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled_loss, model.trainable_weights)
    model.optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
    num_examples = sum(_num_examples(part) for part in parts)
    for metric in model.metrics:
        if metric.name == "loss":
            metric.update_state(loss, sample_weight=num_examples)
    results: dict[str, Tensor] = {}
    for part, y_pred in zip(parts, predictions, strict=True):
        results = model.compute_metrics(part.x, part.y, y_pred, part.sample_weight)
    return results


def _loss_factors(
    loss: keras.losses.Loss, parts: Sequence[_BatchPart], token_weights: TokenWeights
) -> list[Tensor]:
    """Return the factor of each part's loss in the loss of the batch."""
    if not (hasattr(loss, "pad_id") and hasattr(loss, "normalize")):
        raise ValueError(
            "A batch is trained in parts only with a loss that says how much each counts, such as "
            f"`training.MaskedCrossentropy`. Received: loss={loss!r}."
        )
    if parts[0].sample_weight is not None and not loss.normalize:
        return [ops.ones(()) for _ in parts]
    totals = [ops.sum(token_weights(part.y, loss.pad_id, part.sample_weight)) for part in parts]
    whole = sum(totals[1:], start=totals[0])
    # The loss of a batch without tokens is 0, not NaN.
    whole = ops.where(ops.equal(whole, 0), ops.ones_like(whole), whole)
    return [total / whole for total in totals]
