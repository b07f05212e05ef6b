"""A whole training run in one call; every part can also be used alone."""

import contextlib
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Protocol

import keras
import numpy as np

from keras_transformer.errors import InputError
from keras_transformer.layers.validation import check_positive
from keras_transformer.training.checkpoint_reading import read_checkpoint, restore_checkpoint
from keras_transformer.training.checkpoint_state import CheckpointState
from keras_transformer.training.checkpoints import Checkpoint
from keras_transformer.training.distribution import refuse_multi_worker, refuse_other_models, share_rows
from keras_transformer.training.early_stopping import StopEarly, is_over
from keras_transformer.training.finite_loss import StopOnNonFinite
from keras_transformer.training.moving_average import EvaluateMovingAverage, apply_moving_average
from keras_transformer.training.recent_batches import RecentBatches
from keras_transformer.training.recent_checkpoints import KeepRecent, average_recent, restore_average
from keras_transformer.training.recipe import compile_model
from keras_transformer.training.run_record import RunRecord
from keras_transformer.training.throughput import Throughput
from keras_transformer.training.training_data import check_training_data, check_validation_weights

CHECKPOINTS, TENSORBOARD = "checkpoints", "tensorboard"


class Scoring(Protocol):
    """A callback that adds a number to the logs to choose the best epoch by: `evaluation.DecodeAndScore`."""

    @property
    def monitor(self) -> str:
        """The name in the logs whose lowest value is the best."""


def fit(
    model: keras.Model,
    training: Any,
    validation: Any = None,
    *,
    directory: str | Path,
    epochs: int = 10,
    learning_rate: float | keras.optimizers.schedules.LearningRateSchedule | None = None,
    scoring: Scoring | None = None,
    patience: int | None = None,
    average_last: int | None = None,
    tensorboard: bool = False,
    callbacks: Sequence[keras.callbacks.Callback] | None = None,
    verbose: str | int = "auto",
) -> CheckpointState:
    """Train a model, go on where an earlier call was stopped, and leave the best weights in the model.

    A thin function over `compile_model`, `model.fit` and the callbacks of this package. The directory gets
    `checkpoints`, `training.csv`, `training.png` and `tensorboard`. If it holds checkpoints already, the run
    goes on after its last epoch, with the weights and the optimizer of then. A dataset that shuffles by epoch
    has to go on there too: its `first_epoch` is `read_checkpoint(directory / "checkpoints")[1].epoch`.

    At the end the model has the weights of the best epoch: the one with the lowest validation loss, or with
    the best score of `scoring`; their moving average, where the optimizer keeps one; with `average_last` the
    mean of the last checkpoints instead.

    Args:
        model: a Keras model, compiled or not. `compile_model` offers R-Drop, clipping, a moving average
            of the weights, and gradient accumulation.
        training: what `model.fit` takes: a dataset of inputs and labels, which shuffles itself.
        validation: what `validation_data` takes, or None.
        directory: of the run; made if absent.
        epochs: how many in all, those of earlier calls included.
        learning_rate: a number or a schedule, with which `compile_model` compiles; None for a model that
            is compiled already. A number holds for a run that goes on, too.
        scoring: an `evaluation.DecodeAndScore`, which then chooses the best epoch.
        patience: stop after so many epochs in a row that are no better; None to go on to the end.
        average_last: how many of the last checkpoints are averaged in the end; None for the best epoch.
        tensorboard: whether to write logs for TensorBoard, which must be installed.
        callbacks: further ones; what they add to the logs is recorded.
        verbose: of `model.fit`: its progress bar, or 0 for none.

    Returns:
        Epochs, best epoch and each metric's value after each epoch.

    Raises:
        TypeError: `training` is no dataset, or a generator that is read once; or a number is no integer.
        ValueError: the model is not compiled and there is no learning rate, a number is not above zero, a
            dataset has no end, `patience` is over before `scoring` decodes again, or a callback or sample
            weights of the validation do not go with how the model is compiled.
        InputError: a dataset has no batch; no checkpoint is whole, or it is of another model; a loss is not
            finite; the model was made under a strategy that Keras 3 cannot train under, or cannot be trained
            on several cores.

    Example:
        ```python
        schedule = kt.training.NoamSchedule(hidden_dim=512, warmup_steps=4000)
        kt.training.compile_model(model, schedule, label_smoothing=0.1, r_drop=5.0)
        scoring = kt.evaluation.DecodeAndScore(make_translator, validation_pairs, "bleu")
        kt.training.fit(model, dataset, validation_dataset, directory="run", scoring=scoring, patience=5)
        ```
    """
    check_positive(epochs=epochs, **({} if average_last is None else {"average_last": average_last}))
    check_training_data(training, validation)
    _check_patience(patience, scoring)
    refuse_multi_worker(model)
    refuse_other_models(model)
    _compile(model, learning_rate)
    _refuse_swaps(callbacks)
    check_validation_weights(model, validation)
    _build(model, training)
    training, validation = share_rows(model, training), share_rows(model, validation)
    directory = Path(directory)
    state = restore_checkpoint(model, directory / CHECKPOINTS)
    if isinstance(learning_rate, Real):  # a variable, which was restored with all others
        model.optimizer.learning_rate = float(learning_rate)
    monitor = scoring.monitor if scoring else "loss" if validation is None else "val_loss"
    checkpoint = Checkpoint(directory / CHECKPOINTS, monitor=monitor, state=state)
    recent = RecentBatches()
    following: list[Any] = [KeepRecent(checkpoint, average_last)] if average_last is not None else []
    following += [RunRecord(checkpoint, directory)]
    recording: list[Any] = [StopOnNonFinite(recent, directory), checkpoint, *following]
    recording += [StopEarly(checkpoint, patience)] if patience is not None else []
    recording += (
        [keras.callbacks.TensorBoard(directory / TENSORBOARD, write_graph=False)] if tensorboard else []
    )
    measuring = [EvaluateMovingAverage(), Throughput(required=False), *([scoring] if scoring else [])]
    if state.epoch >= epochs or is_over(checkpoint.state, patience):
        for callback in following:  # of a run that was stopped between its last checkpoint and them
            callback.on_train_begin()
        if verbose:
            print(f"{directory} is trained to epoch {state.epoch}, and needs no more.")
    else:
        if continue_from := getattr(scoring, "continue_from", None):
            continue_from(state.history)
        _build_metrics(model, training)
        model.fit(
            recent.watch(training),
            validation_data=validation,
            epochs=epochs,
            initial_epoch=state.epoch,
            # The dataset shuffles itself; Keras warns unless it is told so.
            shuffle=False,
            verbose=verbose,
            callbacks=[*measuring, *(callbacks or ()), *recording],
        )
    if average_last is None:
        restore_checkpoint(model, directory / CHECKPOINTS, best=True)
        apply_moving_average(model)
    else:
        restore_average(model, directory / CHECKPOINTS, average_last)
    return checkpoint.state


def trained_model(directory: str | Path, *, average_last: int | None = None) -> keras.Model:
    """Read what `fit` has trained.

    Args:
        directory: that was given to `fit`.
        average_last: see `fit`.

    Returns:
        The model of the best epoch, with the moving average of its weights where the optimizer has one,
        or the mean of the last checkpoints.

    Raises:
        InputError: there are no checkpoints, or one is damaged.
    """
    directory = Path(directory) / CHECKPOINTS
    if average_last is not None:
        return average_recent(directory, average_last)
    model, _ = read_checkpoint(directory, best=True)
    if model is None:
        raise InputError(f"{directory} holds no checkpoint.")
    apply_moving_average(model)
    return model


def _build_metrics(model: keras.Model, training: Any) -> None:
    """Show loss and metrics what the batches are like.

    On JAX and torch Keras else begins the dataset for that and begins it anew to train, so that a dataset
    that counts its epochs would be one ahead: in a new process, and not where a model is trained on.
    """
    if keras.backend.backend() == "tensorflow" or not hasattr(training, "element_spec"):
        return
    # A model that cannot take one token, such as one with a wide convolution, is left to Keras.
    with contextlib.suppress(Exception):
        model.test_on_batch(*_zeros(training.element_spec))
        model.reset_metrics()


def _build(model: keras.Model, training: Any) -> None:
    """Show a model of a user's own class what its inputs are like: only then has it weights to read."""
    if not model.built and hasattr(training, "element_spec"):
        # What cannot be built from zeros is built by Keras, from the first batch.
        with contextlib.suppress(Exception):
            model(_zeros(training.element_spec)[0])


def _zeros(element_spec: Any) -> Any:
    """Make a small batch of zeros."""
    # Rows that all devices can share, where the dataset does not say how many.
    num_rows = len(keras.distribution.list_devices()) if keras.distribution.distribution() else 1

    def zeros(spec: Any) -> np.ndarray:
        """Make what stands for one tensor of a batch."""
        shape = [size or (num_rows if axis == 0 else 1) for axis, size in enumerate(spec.shape)]
        return np.zeros(shape, spec.dtype.as_numpy_dtype)

    return keras.tree.map_structure(zeros, element_spec)


def _refuse_swaps(callbacks: Sequence[keras.callbacks.Callback] | None) -> None:
    """Refuse the callback that exchanges weights which `EvaluateMovingAverage` has exchanged."""
    if any(isinstance(callback, keras.callbacks.SwapEMAWeights) for callback in callbacks or ()):
        raise ValueError(
            "`callbacks` must be without SwapEMAWeights: `fit` itself validates the moving average, and "
            "leaves it in the model. Received: SwapEMAWeights."
        )


def _check_patience(patience: int | None, scoring: Scoring | None) -> None:
    """Refuse to stop before there was another score."""
    every = getattr(scoring, "every", 1)
    if patience is not None and patience < every:
        raise ValueError(
            "`patience` must be at least the epochs between two scores. Received: "
            f"patience={patience}, every={every} of `scoring`."
        )


def _compile(model: keras.Model, learning_rate: Any) -> None:
    if learning_rate is not None:
        compile_model(model, learning_rate)
    elif not model.compiled:
        raise ValueError(
            "`learning_rate` must be given for a model that is not compiled. Received: learning_rate=None."
        )
