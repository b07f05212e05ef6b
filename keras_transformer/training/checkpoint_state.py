"""State of a run: what `checkpoints/state.json` says about the checkpoints next to it."""

import dataclasses
import hashlib
import json
import math
import re
from pathlib import Path

import keras
from keras import ops

from keras_transformer.backend.random import GeneratorState
from keras_transformer.errors import InputError
from keras_transformer.files import atomic_file, errors_named, file_sha256, write_file

CHECKPOINTS, STATE_FILE = "checkpoints", "state.json"
_EPOCH_FILE = re.compile(r"epoch-(\d{4,})\.keras")


def _epoch_file(epoch: int) -> str:
    """Return the name of an epoch's checkpoint."""
    return f"epoch-{epoch:04d}.keras"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _SavedEpoch:
    """An epoch with a checkpoint."""

    epoch: int  # counted from 1
    sha256: str
    seeds: list[list[int]]  # of each seed generator: its seed and its count
    generator: list[int]  # of the backend itself; only torch has one

    @property
    def file(self) -> str:
        return _epoch_file(self.epoch)


# A `.keras` file holds weights and optimizer. The state adds what else the next batches depend on and what a
# run remembers: the random state after each saved epoch, the history, a SHA-256 for each file, and options.
@dataclasses.dataclass(frozen=True, kw_only=True)
class _CheckpointState:
    """Everything about a run except weights and optimizer."""

    monitor: str = ""
    history: dict[str, list[float]] = dataclasses.field(default_factory=dict)  # NaN for what was not measured
    saved: list[_SavedEpoch] = dataclasses.field(default_factory=list)  # the oldest first
    model: dict[str, object] = dataclasses.field(default_factory=dict)

    @property
    def epoch(self) -> int:
        return self.saved[-1].epoch if self.saved else 0

    # Derived from the history, so that it needs no state of its own when an epoch is dropped.
    @property
    def best(self) -> _SavedEpoch:
        """The saved epoch with the lowest monitored value; the newest where none has a value."""
        values = self.history.get(self.monitor, [math.nan] * self.epoch)
        measured = [saved for saved in self.saved if not math.isnan(values[saved.epoch - 1])]
        return min(measured, key=lambda saved: values[saved.epoch - 1], default=self.saved[-1])

    def add(self, saved: _SavedEpoch, logs: dict[str, float], model: dict[str, object]) -> "_CheckpointState":
        """Add an epoch."""
        history = {
            name: [*_padded(self.history.get(name, []), saved.epoch - 1), logs.get(name, math.nan)]
            for name in dict.fromkeys((*logs, *self.history))
        }
        return dataclasses.replace(self, history=history, saved=[*self.saved, saved], model=model)

    def without(self, saved: _SavedEpoch) -> "_CheckpointState":
        """Drop a saved epoch, and the history after the newest that is left."""
        state = dataclasses.replace(self, saved=[other for other in self.saved if other != saved])
        history = {name: values[: state.epoch] for name, values in self.history.items()}
        return dataclasses.replace(state, history=history)

    def keep(self, num: int) -> "_CheckpointState":
        """Drop all but the newest `num` and the best, with and without the newest, which may be damaged."""
        best = {state.best.epoch for state in (self, self.without(self.saved[-1])) if state.saved}
        saved = [each for each in self.saved if each in self.saved[-num:] or each.epoch in best]
        return dataclasses.replace(self, saved=saved)


def _padded(values: list[float], length: int) -> list[float]:
    return [*values, *[math.nan] * (length - len(values))]


def _read_state(directory: Path) -> _CheckpointState:
    """Read the state of a run; an empty one where no epoch was saved."""
    path = directory / STATE_FILE
    # A run that begins again deletes what is there, so a lost state is an error.
    if not path.exists():
        _raise_if_lost(directory)
        return _CheckpointState()
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        wanted = values.pop("checksum", None)
        if wanted != (received := _checksum(values)):
            raise ValueError(f"its checksum must be {wanted!r}. Received: {received!r}.")
        return _CheckpointState(**{**values, "saved": [_SavedEpoch(**saved) for saved in values["saved"]]})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is damaged: {error}") from error


def _raise_if_lost(directory: Path) -> None:
    """Raise if checkpoints have no state; only the first may come from a run that was killed before it."""
    names = [path.name for path in _epoch_files(directory)]
    if names not in ([], [_epoch_file(1)]):
        raise InputError(
            f"{directory} holds {names[-1]} but not {STATE_FILE}, which describes the run. Put it back, or "
            "choose another directory."
        )


def _write_state(directory: Path, state: _CheckpointState) -> None:
    """Write the state with a checksum of all its values; a number that is read is the number written."""
    values = dataclasses.asdict(state)
    content = json.dumps({**values, "checksum": _checksum(values)}, indent=2)
    write_file(directory / STATE_FILE, f"{content}\n".encode())


def _checksum(values: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _epoch_files(directory: Path) -> list[Path]:
    """List the checkpoints in a directory, the oldest first, and no other files with similar names."""
    paths = [path for path in directory.glob("epoch-*.keras") if _EPOCH_FILE.fullmatch(path.name)]
    return sorted(paths, key=lambda path: int(path.stem.removeprefix("epoch-")))


def _save_epoch(model: keras.Model, directory: Path, epoch: int) -> _SavedEpoch:
    """Write the checkpoint of an epoch and describe it."""
    path = directory / _epoch_file(epoch)
    with errors_named("write", path), atomic_file(path) as partial:
        model.save(partial)
    return _SavedEpoch(
        epoch=epoch, sha256=file_sha256(path), seeds=_seeds(model), generator=GeneratorState.read()
    )


def _damage(directory: Path, saved: _SavedEpoch) -> InputError | None:
    """Return an error that says what is wrong with a checkpoint, or None if it is whole."""
    path = directory / saved.file
    if not path.is_file():
        return InputError(f"{path} is missing.")
    if (received := file_sha256(path)) == saved.sha256:
        return None
    return InputError(
        f"{path} is damaged: its SHA-256 must be {saved.sha256[:16]}…, as {STATE_FILE} says. "
        f"Received: {received[:16]}…."
    )


def _seeds(model: keras.Model) -> list[list[int]]:
    """Return the state of each seed generator: its seed and its count; a `.keras` file lacks both."""
    return [ops.convert_to_numpy(variable).tolist() for variable in _seed_variables(model)]


def _set_seeds(model: keras.Model, values: list[list[int]]) -> None:
    """Make dropout go on where it stood, in a model of the same layers."""
    variables = _seed_variables(model)
    if len(variables) != len(values):
        raise InputError(
            f"The random state must belong to the model's {len(variables)} seed generators. "
            f"Received: the states of {len(values)}."
        )
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def _seed_variables(model: keras.Model) -> list[keras.Variable]:
    # Keras names the variable of each `SeedGenerator` so.
    return [variable for variable in model.variables if variable.name == "seed_generator_state"]


def _describe(model: keras.Model) -> dict[str, object]:
    """Describe a model and its optimizer: numbers, names and switches that a run must keep."""
    # Weights of the same shapes fit a model with another activation or other positions, and Adamax takes
    # Adam's variables for its own, so a run goes on only with the options that it began with. And with as
    # many weights in all, Keras's own error names none of what differs.
    try:
        config = model.get_config()
    except NotImplementedError:  # a class of the user's own
        config = {}
    options = {
        name: value
        for name, value in config.items()
        if name not in ("name", "trainable") and isinstance(value, str | int | float | None)
    }
    if model.built:
        options["num_parameters"] = model.count_params()
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # in a `LossScaleOptimizer`
    return {**options, "optimizer": None if optimizer is None else type(optimizer).__name__}
