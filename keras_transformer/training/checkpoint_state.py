"""Checkpoint files, and the state of a run in `checkpoints/state.json`."""

import contextlib
import dataclasses
import io
import json
import math
import re
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeAlias

import h5py
import keras
from keras import ops
from pydantic import Field

from keras_transformer._arguments import warn_user
from keras_transformer._backend.random import GeneratorState
from keras_transformer._files import Checksums, atomic_file, errors_named, read_file, read_table, write_file
from keras_transformer.errors import InputError
from keras_transformer.types import Count

CHECKPOINTS, STATE_FILE = "checkpoints", "state.json"
_EPOCH_FILE = re.compile(r"epoch-(\d{4,})\.keras")
_Integer: TypeAlias = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_Number: TypeAlias = Annotated[float, Field(allow_inf_nan=True)]


def _epoch_file(epoch: int) -> str:
    return f"epoch-{epoch:04d}.keras"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _SavedEpoch:
    epoch: Count  # from 1
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    # Seed and counter of each seed generator.
    seeds: list[Annotated[list[_Integer], Field(min_length=2, max_length=2)]]
    generator: list[_Integer]  # random generator of the backend; only torch has one

    @property
    def file(self) -> str:
        return _epoch_file(self.epoch)


# A `.keras` file holds weights and optimizer. The state adds the random state after each saved epoch, the
# history, a SHA-256 for each file, and the options of model and optimizer.
@dataclasses.dataclass(frozen=True, kw_only=True)
class _CheckpointState:
    """State of a run without weights and optimizer."""

    monitor: str = ""
    monitor_rises: bool = False  # whether higher is better
    # NaN where an epoch has no value.
    history: dict[str, list[_Number]] = dataclasses.field(default_factory=dict)
    saved: list[_SavedEpoch] = dataclasses.field(default_factory=list)  # oldest first
    model: dict[str, object] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        epochs, lengths = [saved.epoch for saved in self.saved], {*map(len, self.history.values())}
        if epochs != sorted({*epochs}) or lengths - {self.epoch}:
            raise ValueError(
                "Epochs must be in order, with a value of each in the history. "
                f"Received: epochs {epochs}, {sorted(lengths)} values."
            )

    @property
    def epoch(self) -> int:
        return self.saved[-1].epoch if self.saved else 0

    # Derived from the history, so that dropping an epoch needs no update.
    @property
    def best(self) -> _SavedEpoch:
        """The saved epoch with the best monitored value; the newest if none has a value."""
        values = self.history.get(self.monitor, [math.nan] * self.epoch)
        measured = [saved for saved in self.saved if not math.isnan(values[saved.epoch - 1])]
        sign = -1 if self.monitor_rises else 1
        return min(measured, key=lambda saved: sign * values[saved.epoch - 1], default=self.saved[-1])

    def add(self, saved: _SavedEpoch, logs: dict[str, float], model: dict[str, object]) -> "_CheckpointState":
        history = {}
        for name in dict.fromkeys((*logs, *self.history)):
            values = self.history.get(name, [])
            missing = [math.nan] * (saved.epoch - 1 - len(values))
            history[name] = [*values, *missing, logs.get(name, math.nan)]
        return dataclasses.replace(self, history=history, saved=[*self.saved, saved], model=model)

    def without(self, saved: _SavedEpoch) -> "_CheckpointState":
        """Drop a saved epoch, and the history after the newest remaining one."""
        kept = [other for other in self.saved if other != saved]
        epoch = kept[-1].epoch if kept else 0
        history = {name: values[:epoch] for name, values in self.history.items()}
        return dataclasses.replace(self, saved=kept, history=history)

    def keep(self, num: int) -> "_CheckpointState":
        """Keep the newest `num` epochs and the best one."""
        # Also the best without the newest, which may be damaged.
        best = {state.best.epoch for state in (self, self.without(self.saved[-1])) if state.saved}
        saved = [each for each in self.saved if each in self.saved[-num:] or each.epoch in best]
        return dataclasses.replace(self, saved=saved)


def _read_state(directory: Path) -> _CheckpointState:
    """Read the state of a run; an empty state if no epoch was saved."""
    path = directory / STATE_FILE
    if path.exists():
        return read_table(read_file(path), path, _CheckpointState, checksum=True)
    # A missing state is an error, because a new run would delete the checkpoints. Only a single first
    # checkpoint may be left by a run that was killed before it wrote its state.
    names = [path.name for path in _epoch_files(directory)]
    if names not in ([], [_epoch_file(1)]):
        raise InputError(
            f"{directory} holds {names[-1]} but not {STATE_FILE}, which describes the run. Put it back, or "
            "choose another directory."
        )
    return _CheckpointState()


def _write_state(directory: Path, state: _CheckpointState) -> None:
    """Write the state with a checksum. Numbers are read back exactly."""
    values = dataclasses.asdict(state)
    content = json.dumps({**values, "checksum": Checksums.of_values(values)}, indent=2)
    write_file(directory / STATE_FILE, f"{content}\n".encode())


def _epoch_files(directory: Path) -> list[Path]:
    """List the checkpoints in a directory, oldest first."""
    paths = [path for path in directory.glob("epoch-*.keras") if _EPOCH_FILE.fullmatch(path.name)]
    return sorted(paths, key=lambda path: int(path.stem.removeprefix("epoch-")))


def _save_epoch(model: keras.Model, directory: Path, epoch: int) -> _SavedEpoch:
    path = directory / _epoch_file(epoch)
    with errors_named("write", path), atomic_file(path) as partial:
        model.save(partial)
    # A `.keras` file does not contain the state of the seed generators.
    seeds = [ops.convert_to_numpy(variable).tolist() for variable in _seed_variables(model)]
    return _SavedEpoch(epoch=epoch, sha256=Checksums.of(path), seeds=seeds, generator=GeneratorState.read())


def _damage(directory: Path, saved: _SavedEpoch) -> InputError | None:
    """Return an error that describes the damage of a checkpoint, or None if it is intact."""
    path = directory / saved.file
    if not path.is_file():
        return InputError(f"{path} is missing.")
    if (received := Checksums.of(path)) == saved.sha256:
        return None
    return InputError(
        f"{path} is damaged: its SHA-256 must be {saved.sha256[:16]}…, as {STATE_FILE} says. "
        f"Received: {received[:16]}…."
    )


def _whole(directory: Path, state: _CheckpointState, *, best: bool = False) -> _CheckpointState:
    """Drop damaged checkpoints until the newest, or the best, is intact; raise if all are damaged."""
    # A damaged checkpoint loses only the epochs since the previous one.
    errors: list[InputError] = []
    while state.saved:
        chosen = state.best if best else state.saved[-1]
        error = _damage(directory, chosen)
        if error is None:
            break
        errors.append(error)
        state = state.without(chosen)
    if errors and not state.saved:
        raise errors[0]
    for error in errors:
        warn_user(f"{error} {chosen.file} is used instead.")
    return state


@contextlib.contextmanager
def _archive(path: Path, use: str) -> Iterator[None]:
    """Check the sizes in a `.keras` file before reading; turn every error of reading into InputError."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path} cannot be read {use}: it is no regular file.")
    try:
        if zipfile.is_zipfile(path):
            # Keras does not compress, and refuses files that expand to more than 4 GB.
            limit = 10 * (size := path.stat().st_size) + 2**26
            with zipfile.ZipFile(path) as archive:
                sizes = [part.file_size for part in archive.infolist()]
                if sum(sizes) <= limit and "model.weights.h5" in archive.namelist():
                    with h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as weights:
                        weights.visititems(lambda _, item: sizes.append(getattr(item, "nbytes", 0)))
            if sum(sizes) > limit:
                raise InputError(f"It has {size:,} bytes and would need {sum(sizes):,} bytes of memory.")
        yield
    except Exception as error:  # Keras raises many kinds of errors for a damaged archive
        cause = " ".join(str(error).split())
        if path.is_file() and not zipfile.is_zipfile(path):
            cause = "it is damaged, or no .keras file."  # Keras would say that it is missing
        elif len(cause) > 600:
            cause = f"{cause[:150]} [...] {cause[-400:]}"  # the cause is at the end
        raise InputError(f"{path} cannot be read {use}: {cause}") from error


def _read_model(path: Path) -> keras.Model:
    with _archive(path, "as a Keras model"):
        return keras.saving.load_model(path)


def _load_weights(model: keras.Model, path: Path) -> None:
    with _archive(path, "into the model"), warnings.catch_warnings():
        # Keras only warns, and leaves the optimizer untrained.
        warnings.filterwarnings("error", message="Skipping variable loading for optimizer")
        # `LossScaleOptimizer` would create its variables a second time.
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        model.load_weights(path)


def _set_seeds(model: keras.Model, values: list[list[int]]) -> None:
    """Restore the seed generators of dropout in a model with the same layers."""
    variables = _seed_variables(model)
    if len(variables) != len(values):
        raise InputError(
            f"The random state must belong to the model's {len(variables)} seed generators. "
            f"Received: the states of {len(values)}."
        )
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def _seed_variables(model: keras.Model) -> list[keras.Variable]:
    # Name that Keras gives to the variable of each `SeedGenerator`.
    return [variable for variable in model.variables if variable.name == "seed_generator_state"]


def _describe(model: keras.Model) -> dict[str, object]:
    """Return the options of a model and its optimizer that must not change during a run."""
    # Weights also fit a model with another activation or other positions, and Adamax accepts Adam's
    # variables. If shapes differ, Keras's own error does not name the option.
    try:
        config = model.get_config()
    except NotImplementedError:  # a custom class
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
