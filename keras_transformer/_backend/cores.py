"""Training on the cores of a processor, each on a part of each batch; on TensorFlow.

Measured on two idle cores, milliseconds of a step with and without: `small` 559 and 612, 1,061 and 1,205,
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

# From labels `(b, t)`, the label of padding, and sample weights or None, to how much each token counts.
TokenWeights: TypeAlias = Callable[[Tensor, int, Tensor | None], Tensor]


class _Part(NamedTuple):
    """The rows of a batch that one core trains on."""

    x: Tensor | dict[str, Tensor]
    y: Tensor
    sample_weight: Tensor | None


def train_on_cores(
    kinds: Sequence[type[keras.Model]], token_weights: TokenWeights
) -> AbstractContextManager[None]:
    """Claim all cores now, and let each train on a part of each batch as long as the context lasts.

    A step is that of the whole batch to rounding, since each part counts as much as its tokens.

    Args:
        kinds: classes of models; their losses have `pad_id` and `normalize`, as `MaskedCrossentropy`.
        token_weights: computes how much each token counts.

    Returns:
        A context manager, in which models of these classes train in parts.

    Raises:
        InputError: if TensorFlow has begun to compute with other threads.
    """
    return _trained_in_parts(_claim_cores(), kinds, token_weights)


@contextmanager
def _trained_in_parts(
    num_parts: int, kinds: Sequence[type[keras.Model]], token_weights: TokenWeights
) -> Iterator[None]:
    def train_step(model: keras.Model, data: tuple[Any, ...]) -> dict[str, Tensor]:
        return _train_step(model, _parts_of(num_parts, data), token_weights)

    # The step of the classes themselves, so that no other file knows of parts. The threads are the
    # process's, too, whatever model trains.
    for kind in kinds:
        kind.train_step = train_step
    try:
        yield
    finally:
        for kind in kinds:
            del kind.train_step


def _claim_cores() -> int:
    """Make TensorFlow run each operation on one core, and as many at a time as there are; return how many."""
    import tensorflow as tf

    # TensorFlow cannot take this back. It is not the default, since searches then run on one core.
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


def _parts_of(num_parts: int, data: tuple[Any, ...]) -> list[_Part]:
    """Cut a batch into parts; some are empty where there are too few examples."""
    batch = keras.utils.unpack_x_y_sample_weight(data)
    num_examples = _num_examples(batch)
    bounds = [number * num_examples // num_parts for number in range(num_parts + 1)]
    return [
        _Part(
            *keras.tree.map_structure(
                lambda rows, start=start, end=end: None if rows is None else rows[start:end], batch
            )
        )
        for start, end in pairwise(bounds)
    ]


def _num_examples(batch: tuple[Any, ...]) -> Tensor:
    return ops.shape(next(rows for rows in keras.tree.flatten(batch) if rows is not None))[0]


def _train_step(model: keras.Model, parts: Sequence[_Part], token_weights: TokenWeights) -> dict[str, Tensor]:
    """Do what Keras's `train_step` does, and return the metrics."""
    import tensorflow as tf

    # The parts are chains of operations in one graph: with one thread for each operation and one chain for
    # each core, no core waits for the others before all gradients are there. With two threads for each
    # operation a step of a small model took 600 ms where half of it with one thread took 530, since threads
    # wait for each other at the end of each of some thousand operations.
    with tf.GradientTape() as tape:
        predictions = [model(part.x, training=True) for part in parts]
        losses = [
            share * model.compute_loss(part.x, part.y, y_pred, part.sample_weight, training=True)
            for share, part, y_pred in zip(
                _shares(model.loss, parts, token_weights), parts, predictions, strict=True
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


def _shares(loss: keras.losses.Loss, parts: Sequence[_Part], token_weights: TokenWeights) -> list[Tensor]:
    """Return the factors with which the losses of the parts add up to the batch's."""
    if not (hasattr(loss, "pad_id") and hasattr(loss, "normalize")):
        raise ValueError(
            "A batch is trained in parts only with a loss that says how much each counts, such as "
            f"`training.MaskedCrossentropy`. Received: loss={loss!r}."
        )
    if parts[0].sample_weight is not None and not loss.normalize:
        return [ops.ones(()) for _ in parts]
    totals = [ops.sum(token_weights(part.y, loss.pad_id, part.sample_weight)) for part in parts]
    whole = sum(totals[1:], start=totals[0])
    # The loss of a batch without a token is 0, not NaN.
    whole = ops.where(ops.equal(whole, 0), ops.ones_like(whole), whole)
    return [total / whole for total in totals]
