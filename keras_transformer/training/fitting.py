"""A whole training run in one call; every part can also be used alone."""

import contextlib
import io
import math
from collections import deque
from collections.abc import Iterator, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Protocol

import keras
import numpy as np
from keras import ops

from keras_transformer.arguments import check_positive
from keras_transformer.errors import InputError
from keras_transformer.files import write_file
from keras_transformer.training.checkpoint_reading import read_checkpoint, restore_checkpoint
from keras_transformer.training.checkpoint_state import CheckpointState
from keras_transformer.training.checkpoints import (
    Checkpoint,
    KeepRecent,
    RunRecord,
    StopEarly,
    average_recent,
    is_over,
    restore_average,
)
from keras_transformer.training.distribution import refuse_multi_worker, refuse_other_models, share_rows
from keras_transformer.training.metrics import Throughput
from keras_transformer.training.moving_average import EvaluateMovingAverage, apply_moving_average
from keras_transformer.training.recipe import compile_model

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


# More than a pipeline prepares before they are trained on, and no more memory than they are worth.
_NUM_KEPT, _NUM_BYTES = 64, 1 << 28


class RecentBatches:
    """Remembers what a `tf.data` dataset gives, while it is trained on.

    Example:
        ```python
        recent = RecentBatches()
        model.fit(recent.watch(dataset), callbacks=[StopOnNonFinite(recent, directory)])
        ```
    """

    def __init__(self) -> None:
        self._batches: deque[tuple[int, list[np.ndarray]]] = deque(maxlen=_NUM_KEPT)

    def watch(self, dataset: Any) -> Any:
        """Make a dataset of the same elements that are remembered.

        Args:
            dataset: of batches; anything but a `tf.data` dataset of tensors with an end, which numbers its
                batches as epochs do, is given back as it is, and not watched.

        Returns:
            The dataset to train on.
        """
        if not all(hasattr(dataset, name) for name in ("enumerate", "element_spec")):
            return dataset
        import tensorflow as tf

        has_tensors = all(isinstance(s, tf.TensorSpec) for s in tf.nest.flatten(dataset.element_spec))
        if not has_tensors or int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY:
            return dataset

        def remember(number: Any, *batch: Any) -> Any:
            """Keep the arrays of one batch, and pass it on."""
            arrays = tf.nest.flatten(batch)
            with tf.control_dependencies([tf.numpy_function(self._keep, [number, *arrays], [])]):
                kept = [tf.identity(array) for array in arrays]
            elements = tf.nest.pack_sequence_as(batch, kept)
            return elements if len(elements) > 1 else elements[0]

        single = not isinstance(dataset.element_spec, tuple)
        if single:
            return dataset.enumerate().map(remember)
        return dataset.enumerate().map(lambda number, batch: remember(number, *batch))

    def _keep(self, number: int, *arrays: np.ndarray) -> None:
        self._batches.append((int(number), [np.array(array) for array in arrays]))
        while sum(array.nbytes for _, kept in self._batches for array in kept) > _NUM_BYTES:
            self._batches.popleft()

    def arrays(self, number: int) -> list[np.ndarray] | None:
        """Give a batch.

        Args:
            number: in its epoch, from 0.

        Returns:
            Its arrays in the order of `tf.nest.flatten`: of the inputs by name, then the labels; or None
            where it is not remembered.
        """
        return next((arrays for kept, arrays in reversed(self._batches) if kept == number), None)


BATCH_FILE = "non_finite_batch.npz"


class StopOnNonFinite(keras.callbacks.Callback):
    """Stops training with an error as soon as a loss is NaN or infinite.

    `keras.callbacks.TerminateOnNaN` does not do: it lets the epoch end, so that useless weights
    take the place of good ones, and does not look at the loss of the validation, which is the
    first to tell of weights lost in the last batch. It comes before `Checkpoint` among the callbacks.

    Args:
        recent: the batches of the dataset that is trained on, so that the wrong one can be saved.
        directory: where to save its arrays, as `non_finite_batch.npz`; made if absent.

    Example:
        >>> StopOnNonFinite().on_train_batch_end(3, {"loss": float("nan")})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        keras_transformer.errors.InputError: The loss must be finite. Received: loss=nan after batch 4...
    """

    def __init__(self, recent: RecentBatches | None = None, directory: str | Path | None = None) -> None:
        super().__init__()
        self._recent, self._directory = recent, directory
        self._epoch = 0
        self._num_batches: int | None = None

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Note where training is; `epoch` counts from 0."""
        self._epoch, self._num_batches = epoch, 0

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Look at the loss so far.

        Args:
            batch: counted from 0.
            logs: each metric's value.

        Raises:
            InputError: the loss is not finite.
        """
        self._num_batches = batch + 1
        self._check(logs, f"batch {batch + 1} of epoch {self._epoch + 1}", batch)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Look at the loss of the validation too.

        Args:
            epoch: counted from 0.
            logs: each metric's value.

        Raises:
            InputError: a loss is not finite, or there was no batch to have one.
        """
        # After the first epoch Keras has a loss all the same: 0, or that of the epoch before.
        if self._num_batches == 0 or (logs is not None and "loss" not in logs):
            raise InputError(
                "The training dataset must have at least one batch in each epoch. "
                f"Received: 0 batches in epoch {epoch + 1}."
            )
        self._check(logs, f"epoch {epoch + 1}")

    def _check(self, logs: dict[str, float] | None, moment: str, batch: int | None = None) -> None:
        for name, value in (logs or {}).items():
            if name.endswith("loss") and not math.isfinite(value):
                saved = "" if batch is None else self._save(batch)
                raise InputError(
                    f"The loss must be finite. Received: {name}={float(value)} after {moment}"
                    f"{self._learning_rate()}.{saved} A lower learning rate or a longer warm-up may help."
                )

    def _learning_rate(self) -> str:
        """Name the step and the rate of the last update."""
        optimizer = getattr(getattr(self, "model", None), "optimizer", None)
        if optimizer is None:
            return ""
        # While JAX trains, the weights and the optimizer do not have their numbers.
        getattr(self.model, "jax_state_sync", lambda: None)()
        rate = float(ops.convert_to_numpy(optimizer.learning_rate))
        return f", step {int(ops.convert_to_numpy(optimizer.iterations)):,}, at the learning rate {rate:.3g}"

    def _save(self, batch: int) -> str:
        """Save the arrays of a batch, and say where."""
        # Of several batches in one call it is not known which was wrong.
        is_one = getattr(getattr(self, "model", None), "steps_per_execution", 1) == 1
        arrays = self._recent.arrays(batch) if self._recent is not None and is_one else None
        if arrays is None or self._directory is None:
            return ""
        path, content = Path(self._directory) / BATCH_FILE, io.BytesIO()
        np.savez(content, *arrays)
        write_file(path, content.getvalue())
        return f" The ids of that batch are in {path}."


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
