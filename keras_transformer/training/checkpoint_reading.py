"""Reading checkpoints: the newest that is whole."""

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_transformer.errors import InputError
from keras_transformer.files import file_sha256
from keras_transformer.training.checkpoint_state import (
    STATE_BEFORE_FILE,
    STATE_FILE,
    CheckpointState,
    CheckpointWarning,
    epoch_file,
    load_model,
    load_weights,
    model_options,
    optimizer_class,
    read_states,
    saved_epochs,
    set_random_state,
)


def average_weights(models: Sequence[str | Path | keras.Model]) -> keras.Model:
    """Make a model whose weights are the mean of those of several checkpoints.

    Vaswani et al. 2017, section 6.1, average the last 5 checkpoints of the base model and the last 20
    of the big one, which costs nothing when the model answers and is worth up to a point of BLEU.
    Each weight is summed in float64. One file is in memory at a time. The optimizer of the result, if
    it has one, is that of the last file: the result is there to be used, not to be trained on.

    Args:
        models: `.keras` files or models, all of one shape; none of them is changed.

    Returns:
        A new model of the class of the last one.

    Raises:
        ValueError: there is none, or a weight has another shape than in the first.
        InputError: a file is missing or damaged.

    Example:
        >>> first, second = (keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]) for _ in "ab")
        >>> for model, value in ((first, 1.0), (second, 4.0)):
        ...     _ = model.layers[0].kernel.assign([[value]])
        >>> average_weights([first, second]).get_weights()[0].item()
        2.5
    """
    if not models:
        raise ValueError(f"`models` must hold at least one file or model. Received: models={models!r}.")
    model = _loaded(models[0])
    shapes = _shapes(model)
    sums = [_value(weight) for weight in model.weights]
    for number, each in enumerate(models[1:], 2):
        model = _loaded(each)
        source = f"model {number}" if isinstance(each, keras.Model) else str(each)
        _check_shapes(_shapes(model), shapes, source)
        sums = [total + _value(weight) for total, weight in zip(sums, model.weights, strict=True)]
    averaged = _copy(model) if isinstance(models[-1], keras.Model) else model
    for weight, total in zip(averaged.weights, sums, strict=True):
        weight.assign(ops.cast((total / len(models)).astype("float32"), weight.dtype))
    return averaged


def _loaded(model: str | Path | keras.Model) -> keras.Model:
    return model if isinstance(model, keras.Model) else load_model(Path(model))


def _copy(model: keras.Model) -> keras.Model:
    # Not `clone_model`, which gives a tied output a table of its own.
    copied = type(model).from_config(model.get_config())
    copied.set_weights(model.get_weights())
    return copied


def _value(weight: keras.Variable) -> Any:
    return ops.convert_to_numpy(weight).astype("float64")


def _shapes(model: keras.Model) -> list[tuple[str, tuple[int, ...]]]:
    return [(weight.path, tuple(weight.shape)) for weight in model.weights]


def _check_shapes(
    received: list[tuple[str, tuple[int, ...]]], wanted: list[tuple[str, tuple[int, ...]]], source: str
) -> None:
    """Refuse weights that differ from those of the first model; the first that does is named."""
    for (path, shape), (wanted_path, wanted_shape) in zip(received, wanted, strict=False):
        if shape != wanted_shape:
            raise ValueError(
                f"All models must have weights of the same shapes: {wanted_path} of the first has the "
                f"shape {wanted_shape}. Received: {path} of shape {shape} in {source}."
            )
    if len(received) != len(wanted):
        extra = (received if len(received) > len(wanted) else wanted)[min(len(received), len(wanted))][0]
        raise ValueError(
            f"All models must have as many weights as the first, {len(wanted)}. "
            f"Received: {len(received)} in {source}; {extra} has no counterpart."
        )


def read_checkpoint(
    directory: str | Path, *, best: bool = False
) -> tuple[keras.Model | None, CheckpointState]:
    """Read a checkpoint, to go on with it or to use it.

    Args:
        directory: of a `Checkpoint`.
        best: the best epoch instead of the last.

    Returns:
        The model with its optimizer and its random state, and the state of the run;
        None and a new state where no epoch was saved. Where a file is missing or
        damaged, the checkpoint of one epoch earlier, with a `CheckpointWarning`.

    Raises:
        InputError: no checkpoint is whole, or nothing says which is the last.
    """
    return _first_whole(Path(directory), load_model, best=best)


def restore_checkpoint(model: keras.Model, directory: str | Path, *, best: bool = False) -> CheckpointState:
    """Read a checkpoint into a compiled model, whose class Keras need not know.

    Args:
        model: gets weights, optimizer and random state; untouched where no epoch was saved.
        directory: of a `Checkpoint`.
        best: the best epoch instead of the last.

    Returns:
        As for `read_checkpoint`, the state alone.

    Raises:
        InputError: no checkpoint is whole, or it is of another model or optimizer.
    """

    def read(path: Path) -> keras.Model:
        load_weights(model, path)
        return model

    for state in read_states(Path(directory)):
        _refuse_another_model(model, directory, state)
    return _first_whole(Path(directory), read, best=best)[1]


def _refuse_another_model(model: keras.Model, directory: str | Path, state: CheckpointState) -> None:
    """Refuse what the checkpoints are not of; weights of the same shapes may mean something else."""
    options = model_options(model)
    differing = [
        f"{name}={options[name]!r} after {value!r}"
        for name, value in state.model_options.items()
        if name in options and options[name] != value
    ]
    if differing:
        raise InputError(
            f"{directory} holds checkpoints of another model. Make it as it was, or choose another "
            f"directory. Received: {', '.join(differing)}."
        )
    if model.built and state.num_parameters not in (0, model.count_params()):
        raise InputError(
            f"{directory} holds checkpoints of another model: it must have {state.num_parameters:,} "
            f"parameters. Received: {model.count_params():,} parameters."
        )
    if state.optimizer not in ("", optimizer_class(model)):
        raise InputError(
            f"{directory} holds checkpoints of a run with the optimizer {state.optimizer}. Go on with it, or "
            "choose another directory, where a new run may begin with the weights of this one. "
            f"Received: {optimizer_class(model) or 'no optimizer'}."
        )


def _first_whole(
    directory: Path, read: Callable[[Path], keras.Model], *, best: bool
) -> tuple[keras.Model | None, CheckpointState]:
    """Read the newest checkpoint that can be read."""
    errors: list[InputError] = []
    choices = _choices(directory, best=best)
    if not choices:
        _refuse_lost_state(directory)
    for state, name in choices:
        path = directory / name
        try:
            _check_sha256(path, state)
            model = read(path)
        except InputError as error:
            errors.append(error)
            continue
        # Only of the last epoch is it known.
        if path.name == state.last_file and state.random_state:
            set_random_state(model, state.random_state)
        if errors:
            warnings.warn(f"{errors[0]} {name} is used instead.", CheckpointWarning, stacklevel=3)
        return model, state
    if errors:
        raise errors[0]
    return None, CheckpointState()


def _refuse_lost_state(directory: Path) -> None:
    """Refuse to begin anew over checkpoints; the first may be of a process killed before it was known."""
    paths = saved_epochs(directory)
    if [path.name for path in paths] not in ([], [epoch_file(1)]):
        raise InputError(
            f"{directory} holds {paths[-1].name} but neither {STATE_FILE} nor {STATE_BEFORE_FILE}, which say "
            "where the run stands. Put one of them back, or choose another directory."
        )


def _choices(directory: Path, *, best: bool) -> list[tuple[CheckpointState, str]]:
    """List which checkpoints will do, and where a run stands with each."""
    states = read_states(directory)
    choices = [(state, state.best_file if best else state.last_file) for state in states]
    if best and states:
        newest = states[0]
        last = dataclasses.replace(newest, best_file=newest.last_file, best_epoch=newest.epoch)
        choices.append((last, last.best_file))
    return choices


def _check_sha256(path: Path, state: CheckpointState) -> None:
    wanted = state.sha256.get(path.name)
    if wanted is not None and path.is_file() and (received := file_sha256(path)) != wanted:
        raise InputError(
            f"{path} is damaged: its SHA-256 must be {wanted[:16]}…, as {STATE_FILE} says. "
            f"Received: {received[:16]}…."
        )
