"""A training run in one call."""

import contextlib
import math
import warnings
from collections.abc import Iterator, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Protocol

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
    """A callback that scores epochs: `evaluation.DecodeAndScore`, whose searches stand in a later room."""

    every: int  # epochs from one score to the next

    @property
    def monitor(self) -> str: ...  # the name in the logs whose lowest value is the best

    def continue_from(self, history: dict[str, list[float]]) -> None: ...


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
    """Train a model, go on after a stop, and leave the best weights in the model.

    A thin function over `compile_model`, `model.fit` and the callbacks of this package. If the directory
    holds checkpoints, the run goes on after its last epoch, with the weights and the optimizer of then. A
    dataset that shuffles by epoch must go on there too: its `first_epoch` is `Checkpoint(directory).epoch`.

    In the end the model has the weights of the best epoch: the one with the lowest validation loss, or with
    the best score of `scoring`; their moving average, if the optimizer keeps one; with `average_last` the
    mean of the last epochs instead.

    Args:
        model: A Keras model, compiled or not. `compile_model` offers R-Drop, clipping, a moving average
            of the weights, and gradient accumulation.
        training: What `model.fit` takes: a dataset of inputs and labels, which shuffles itself.
        validation: What `validation_data` takes, or None.
        directory: Of the run; it gets `checkpoints`, `training.csv` with the learning rate, `training.png`
            and `tensorboard`.
        epochs: The number of epochs in all, those before a stop included.
        learning_rate: A number or a schedule, with which `compile_model` compiles; None for a compiled
            model. A number also holds for a run that goes on.
        scoring: An `evaluation.DecodeAndScore`, which then chooses the best epoch.
        patience: Stop after so many epochs in a row that are no better; None to go on to the end.
        average_last: The number of last epochs to average in the end; None for the best epoch.
        tensorboard: Whether to write logs for TensorBoard, which must be installed.
        callbacks: Further callbacks; what they add to the logs is recorded.
        verbose: As in `model.fit`: the progress bar, or 0 for none.

    Returns:
        The checkpoint, with `epoch`, `best_epoch` and `history`.

    Raises:
        TypeError: If `training` is no dataset, or a generator that only one epoch can read, or a number is
            not an integer.
        ValueError: If the model is not compiled and there is no learning rate, a number is not above zero, a
            dataset has no end, `patience` is shorter than the time between two scores, or a callback or the
            sample weights of the validation do not go with how the model is compiled.
        InputError: If a dataset has no batch, no checkpoint is whole or they are of another model, a loss is
            not finite, or the devices cannot train the model.

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
    check_positive(epochs=epochs, patience=1 if patience is None else patience)
    check_choice(("auto", 0, 1, 2), verbose=verbose)
    check_positive(epochs=epochs, average_last=1 if average_last is None else average_last)
    _check_dataset("training", training)
    _check_dataset("validation", validation)
    _check_patience(patience, scoring)
    if learning_rate is not None:
        compile_model(model, learning_rate)
    _check_compiled(model, validation, callbacks)
    training = _weigh_updates(model, training)
    _build(model, training)
    training, validation = _share_rows(model, training, validation)
    monitor = scoring.monitor if scoring else "loss" if validation is None else "val_loss"
    checkpoint = Checkpoint(directory, monitor=monitor, keep=max(2, average_last or 0), patience=patience)
    checkpoint.restore(model)
    if isinstance(learning_rate, Real):  # a variable, which was restored with all others
        model.optimizer.learning_rate = float(learning_rate)
    if not checkpoint.is_over(epochs):
        if scoring:
            scoring.continue_from(checkpoint.history)
        logs = Path(directory, "tensorboard")
        board = [keras.callbacks.TensorBoard(logs, write_graph=False)] if tensorboard else []
        model.fit(
            training,
            validation_data=validation,
            epochs=epochs,
            initial_epoch=checkpoint.epoch,
            shuffle=False,  # the dataset shuffles itself; Keras warns unless it is told so
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
        warnings.warn(f"{directory} is trained to epoch {checkpoint.epoch}, and needs no more.", stacklevel=2)
    checkpoint.restore_result(model, average_last)
    return checkpoint


class _LearningRate(keras.callbacks.Callback):
    """Adds the learning rate of the next update to the logs of each epoch."""

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if logs is not None:
            logs["learning_rate"] = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))


class _StopOnNonFinite(keras.callbacks.Callback):
    """Raises an error as soon as a loss is NaN or infinite; it stands before `Checkpoint`."""

    # `keras.callbacks.TerminateOnNaN` does not do: it lets the epoch end, so that useless weights take the
    # place of good ones, and does not look at the loss of the validation, which is the first to tell of
    # weights lost in the last batch.

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._epoch, self._num_batches = epoch, 0

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self._num_batches = batch + 1
        self._check(logs or {}, f"batch {batch + 1} of epoch {self._epoch + 1}")

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        # After the first epoch Keras has a loss all the same: 0, or that of the epoch before.
        if self._num_batches == 0 or "loss" not in (logs or {}):
            raise InputError(
                "The training dataset must have at least one batch in each epoch. "
                f"Received: 0 batches in epoch {epoch + 1}."
            )
        self._check(logs or {}, f"epoch {epoch + 1}")
        # The loss of the last batch is that before its update, which alone may have lost the weights.
        getattr(self.model, "jax_state_sync", lambda: None)()
        check_finite(f"Epoch {epoch + 1}", self.model.trainable_weights)

    def _check(self, logs: dict[str, float], moment: str) -> None:
        for name, value in logs.items():
            if name.endswith("loss") and not math.isfinite(value):
                # While JAX trains, the optimizer does not have its numbers.
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
    if isinstance(dataset, tuple | list) and name == "training":
        raise TypeError(
            "`training` must be a dataset of batches, such as "
            "tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(64). "
            f"Received: a {type(dataset).__name__} of {len(dataset)}."
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


def _check_patience(patience: int | None, scoring: _Scoring | None) -> None:
    every = scoring.every if scoring else 1
    if patience is not None and patience < every:
        raise ValueError(
            "`patience` must be at least the epochs between two scores. Received: "
            f"patience={patience}, every={every} of `scoring`."
        )


def _check_compiled(
    model: keras.Model, validation: Batches, callbacks: Sequence[keras.callbacks.Callback]
) -> None:
    """Raise for a model that is not compiled, and for what does not go with how it is."""
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
    if isinstance(spec, tuple) and len(spec) == 3 and not getattr(model.loss, "normalize", True):
        raise ValueError(
            "`validation` must be without sample weights where gradients are accumulated: the loss takes "
            "them for shares of an update. Received: batches of inputs, labels and sample weights."
        )


def _weigh_updates(model: keras.Model, training: Batches) -> Batches:
    """Weight the tokens of each update, where gradients are accumulated and the loss adds up."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)  # in a `LossScaleOptimizer`
    num_batches, spec = optimizer.gradient_accumulation_steps, getattr(training, "element_spec", None)
    has_weights = not (isinstance(spec, tuple) and len(spec) == 2)
    if num_batches is None or has_weights or getattr(model.loss, "normalize", True):
        return training
    return weigh_updates(training, num_batches, model.loss.pad_id)


def _build(model: keras.Model, training: Batches) -> None:
    """Show a model, its loss and its metrics what the batches are like."""
    if not hasattr(training, "element_spec"):
        return
    # Rows that all devices can share, where the dataset does not say how many.
    num_rows = len(keras.distribution.list_devices()) if keras.distribution.distribution() else 1

    def zeros_of(spec: Any) -> np.ndarray:  # a `tf.TensorSpec`
        shape = [size or (num_rows if axis == 0 else 1) for axis, size in enumerate(spec.shape)]
        return np.zeros(shape, spec.dtype.as_numpy_dtype)

    # A model that cannot take one token, such as one with a wide convolution, is built by Keras, from the
    # first batch; so is one whose batches hold a None.
    with contextlib.suppress(Exception):
        zeros = keras.tree.map_structure(zeros_of, training.element_spec)
        if not model.built:  # a model of a user's own class has no weights to read before
            model(zeros[0])
        # Else a dataset that counts its epochs were one ahead: in a new process, not where training goes on.
        if begins_datasets_early():
            model.test_on_batch(*zeros)
            model.reset_metrics()
