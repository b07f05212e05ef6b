"""Train a model in one call, with checkpoints and resuming."""

import contextlib
import math
from collections.abc import Iterator, Sequence, Sized
from numbers import Real
from pathlib import Path
from typing import Any, Protocol, cast

import keras
import numpy as np
from keras import ops

from keras_transformer._arguments import (
    check_choice,
    check_finite,
    check_flags,
    check_kind,
    check_positive,
    check_several,
    warn_user,
)
from keras_transformer._backend.batches import weigh_updates
from keras_transformer._backend.compiler import begins_datasets_early
from keras_transformer.errors import InputError
from keras_transformer.training.averages import _EvaluateMovingAverage
from keras_transformer.training.checkpoint import Checkpoint
from keras_transformer.training.distribution import _share_rows
from keras_transformer.training.metrics import Throughput
from keras_transformer.training.recipe import compile_model
from keras_transformer.types import Batches


class _Scoring(Protocol):
    """Callback that scores epochs, such as `evaluation.DecodeAndScore`."""

    @property
    def monitor(self) -> str: ...  # name in the logs; lower is better


def fit(
    model: keras.Model,
    training: Batches,
    validation: Batches | None = None,
    *,
    directory: str | Path,
    epochs: int = 10,
    learning_rate: float | keras.optimizers.schedules.LearningRateSchedule | None = None,
    scoring: _Scoring | None = None,
    patience: int | None = None,
    average_last: int | None = None,
    tensorboard: bool = False,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: str | int = "auto",
) -> Checkpoint:
    """Train a model with checkpoints, resume after an interruption, and keep the best weights.

    A thin layer over `compile_model`, `model.fit` and the callbacks of this package. If the directory holds
    checkpoints, training resumes after the last epoch with its weights and optimizer. A dataset with a
    different order in each epoch must resume at the same epoch: create it with
    `first_epoch=Checkpoint(directory).epoch`, an argument of the datasets in `kt.data`.

    At the end, the model has the weights of the best epoch: the one with the best score of `scoring`, else
    with the lowest validation loss, else with the lowest training loss. If the optimizer keeps a moving
    average of the weights, the model has this average as it was at the end of the best epoch. With
    `average_last`, the model has the average weights of the last epochs instead.

    Args:
        model: Keras model, compiled or not. `compile_model` offers R-Drop, clipping, a moving average of the
            weights and gradient accumulation.
        training: Dataset of inputs and labels, as for `model.fit`. It must shuffle itself.
        validation: Validation dataset, as `validation_data` of `model.fit`. Defaults to none.
        directory: Directory of the run, for `checkpoints`, `training.csv` (with the learning rate) and
            `tensorboard`.
        epochs: Total number of epochs, including those before a resume. Defaults to 10.
        learning_rate: Number or schedule, to compile the model with `compile_model`. Defaults to None, for a
            compiled model. A number also replaces the learning rate of a resumed run.
        scoring: An `evaluation.DecodeAndScore`, which then selects the best epoch. Defaults to none.
        patience: Stop after this many epochs without improvement. Defaults to no early stopping.
        average_last: Average the weights of this many last epochs. Defaults to no average: the weights of the
            best epoch.
        tensorboard: Whether to write TensorBoard logs; needs the package `tensorboard`. Defaults to False.
        callbacks: Additional callbacks. Values that they add to the logs are saved in `training.csv`.
        verbose: Verbosity of `model.fit`; 0 for no progress bar. Defaults to "auto".

    Returns:
        The checkpoint, with `epoch`, `best_epoch` and `history`.

    Raises:
        TypeError: If `training` is not a dataset, or is a generator that can be read only once, or a number
            is not an integer.
        ValueError: If the model is not compiled and `learning_rate` is None, a number is not above zero, a
            dataset is infinite, `callbacks` has `SwapEMAWeights`, or `validation` has sample weights although
            gradients are accumulated.
        InputError: If a dataset has no batch, all checkpoints are damaged or belong to another model, a loss
            is not finite, or Keras cannot train under the model's `tf.distribute` strategy.

    Example:
        ```python
        schedule = kt.training.NoamSchedule(hidden_dim=512, warmup_steps=4000)
        kt.training.compile_model(model, schedule, label_smoothing=0.1, r_drop=5.0)
        scoring = kt.evaluation.DecodeAndScore(make_translator, validation_pairs, "bleu")
        kt.training.fit(model, dataset, validation_dataset, directory="run", scoring=scoring, patience=5)
        ```
    """
    check_kind(keras.Model, model=model)
    check_flags(tensorboard=tensorboard)
    check_several(keras.callbacks.Callback, callbacks=callbacks)
    check_choice(("auto", 0, 1, 2), verbose=verbose)
    check_positive(
        epochs=epochs,
        patience=1 if patience is None else patience,
        average_last=1 if average_last is None else average_last,
    )
    _check_dataset("training", training)
    _check_dataset("validation", validation)
    if learning_rate is not None:
        compile_model(model, learning_rate)
    _check_compiled(model, validation, callbacks)
    num_batches = _batches_per_update(model, training)
    if num_batches:
        training = weigh_updates(training, num_batches, model.loss.pad_id)
    _build(model, training)
    training, validation = _share_rows(model, training, validation)
    monitor = scoring.monitor if scoring else "loss" if validation is None else "val_loss"
    checkpoint = Checkpoint(directory, monitor=monitor, keep=max(2, average_last or 0), patience=patience)
    checkpoint.restore(model)
    if isinstance(learning_rate, Real):  # overrides the restored learning rate
        model.optimizer.learning_rate = float(learning_rate)
    if not checkpoint.is_over(epochs):
        logs = Path(directory, "tensorboard")
        board = [keras.callbacks.TensorBoard(logs, write_graph=False)] if tensorboard else []
        with _sum_of_weighted(model) if num_batches else contextlib.nullcontext():
            model.fit(
                training,
                validation_data=validation,
                epochs=epochs,
                initial_epoch=checkpoint.epoch,
                shuffle=False,  # the dataset shuffles itself; avoids a warning of Keras
                verbose=verbose,
                callbacks=[
                    *(_EvaluateMovingAverage(), Throughput(), _LearningRate()),  # these add to the logs
                    *([scoring] if scoring else []),
                    *callbacks,
                    *(_StopOnNonFinite(), checkpoint),  # these read them
                    *board,
                ],
            )
    elif verbose:
        warn_user(f"{directory} is trained to epoch {checkpoint.epoch}, and needs no more.")
    checkpoint.restore_result(model, average_last)
    return checkpoint


class _LearningRate(keras.callbacks.Callback):
    """Callback that adds the learning rate of the next update to the logs."""

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if logs is not None:
            logs["learning_rate"] = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))


class _StopOnNonFinite(keras.callbacks.Callback):
    """Callback that raises an error for a NaN or infinite loss; must come before `Checkpoint`."""

    # Not `keras.callbacks.TerminateOnNaN`: it ends the epoch normally, so that broken weights would be saved,
    # and ignores the validation loss, which is the first to show weights broken by the last batch.

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._epoch, self._num_batches = epoch, 0

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self._num_batches = batch + 1
        self._check(logs or {}, f"batch {batch + 1} of epoch {self._epoch + 1}")

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        # From the second epoch on, Keras reports a loss even without batches.
        if self._num_batches == 0 or "loss" not in (logs or {}):
            raise InputError(
                "The training dataset must have at least one batch in each epoch. "
                f"Received: 0 batches in epoch {epoch + 1}."
            )
        self._check(logs or {}, f"epoch {epoch + 1}")
        # The last loss precedes the last update, which may have broken the weights.
        getattr(self.model, "jax_state_sync", lambda: None)()
        check_finite(f"Epoch {epoch + 1}", self.model.trainable_weights)

    def _check(self, logs: dict[str, float], moment: str) -> None:
        for name, value in logs.items():
            if name.endswith("loss") and not math.isfinite(value):
                # While JAX trains, the optimizer's variables are not up to date.
                getattr(self.model, "jax_state_sync", lambda: None)()
                optimizer = self.model.optimizer
                step, rate = (
                    ops.convert_to_numpy(x) for x in (optimizer.iterations, optimizer.learning_rate)
                )
                raise InputError(
                    f"The loss must be finite. Received: {name}={float(value)} after {moment}, step "
                    f"{int(step):,}, at the learning rate {float(rate):.3g}. A lower learning rate or a "
                    "longer warm-up may help."
                )


def _check_dataset(name: str, dataset: Batches) -> None:
    is_several = isinstance(dataset, tuple | list) and name == "training"  # Keras validates with (x, y)
    if is_several or isinstance(dataset, dict) or hasattr(dataset, "shape"):
        raise TypeError(
            f"`{name}` must be a dataset of batches, such as "
            "tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(64). "
            f"Received: a {type(dataset).__name__} of {len(cast('Sized', dataset))}."
        )
    if isinstance(dataset, Iterator):
        raise TypeError(
            f"`{name}` must be a dataset that each epoch can read again, such as "
            "tf.data.Dataset.from_generator(function, ...). "
            f"Received: an iterator of class {type(dataset).__name__}."
        )
    num_batches = int(dataset.cardinality()) if hasattr(dataset, "cardinality") else None
    if num_batches == -1:  # tf.data.INFINITE_CARDINALITY
        raise ValueError(
            f"`{name}` must have an end, at which the epoch is saved: leave out `.repeat()`. "
            "Received: a dataset of infinite cardinality."
        )
    if num_batches == 0:
        raise InputError(f"`{name}` must have at least one batch. Received: 0 batches.")


def _check_compiled(
    model: keras.Model, validation: Batches, callbacks: Sequence[keras.callbacks.Callback]
) -> None:
    """Raise if the model is not compiled, or arguments contradict how it is compiled."""
    if not model.compiled:
        raise ValueError(
            "`learning_rate` must be given for a model that is not compiled. Received: learning_rate=None."
        )
    if any(isinstance(callback, keras.callbacks.SwapEMAWeights) for callback in callbacks):
        raise ValueError(
            "`callbacks` must be without SwapEMAWeights: `fit` itself validates the moving average, and "
            "leaves it in the model. Received: SwapEMAWeights."
        )
    spec = getattr(validation, "element_spec", None)
    has_weights = isinstance(spec, tuple) and len(spec) == 3
    if has_weights and _accumulated(model) and hasattr(model.loss, "normalize"):
        raise ValueError(
            "`validation` must be without sample weights where gradients are accumulated: the loss takes "
            "them for shares of an update. Received: batches of inputs, labels and sample weights."
        )


def _accumulated(model: keras.Model) -> int | None:
    """Return the number of batches whose gradients are accumulated for an update."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)  # in a `LossScaleOptimizer`
    number: int | None = optimizer.gradient_accumulation_steps
    return number


def _batches_per_update(model: keras.Model, training: Batches) -> int | None:
    """Return the number of batches of an update whose tokens can be weighted alike; None if none can."""
    number = _accumulated(model) if hasattr(model.loss, "normalize") else None
    if number is None or hasattr(training, "element_spec"):
        return number
    warn_user(
        "In an update, every batch has the same weight, however few tokens it has: only the batches of a "
        f"`tf.data.Dataset` are weighted by their tokens. Received: a {type(training).__name__}."
    )
    return None


@contextlib.contextmanager
def _sum_of_weighted(model: keras.Model) -> Iterator[None]:
    """Make the loss a sum, since the weights of an update are shares of it."""
    model.loss._weights_are_shares = True
    try:
        yield
    finally:
        model.loss._weights_are_shares = False
        model.train_function = None  # compiled for the sum


def _build(model: keras.Model, training: Batches) -> None:
    """Build model, loss and metrics for the shapes of the batches."""
    if not hasattr(training, "element_spec"):
        return
    # If the dataset does not fix the number of rows, use one per device.
    num_rows = len(keras.distribution.list_devices()) if keras.distribution.distribution() else 1

    def ones_of(spec: Any) -> np.ndarray:  # a `tf.TensorSpec`; zeros would be padding
        shape = [size or (num_rows if axis == 0 else 1) for axis, size in enumerate(spec.shape)]
        return np.ones(shape, spec.dtype.as_numpy_dtype)

    # If this fails, Keras builds the model from the first batch: for example if a wide convolution does not
    # accept a single token, or batches contain None.
    with contextlib.suppress(Exception):
        ones = keras.tree.map_structure(ones_of, training.element_spec)
        if not model.built:  # a custom class has no weights before
            model(ones[0])
        # Otherwise Keras starts the dataset once to build the model, and a dataset that counts its epochs is
        # one ahead: in a new process, but not if training continues in the same one.
        if begins_datasets_early():
            model.test_on_batch(*ones)
            model.reset_metrics()
