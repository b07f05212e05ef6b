"""Reading checkpoints: the newest that is whole, the best, or the mean of the last."""

import contextlib
import io
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import h5py
import keras
import numpy as np
from keras import ops

from keras_transformer._arguments import check_finite
from keras_transformer._files import as_path
from keras_transformer.errors import InputError
from keras_transformer.training.checkpoint_state import CHECKPOINTS, _CheckpointState, _damage, _read_state
from keras_transformer.training.moving_average import _apply_moving_average


def load_model(path: str | Path, *, average_last: int | None = None) -> keras.Model:
    """Load a model from a `.keras` file, or what `fit` trained from the directory of a run.

    Args:
        path: A file, or a directory that `fit` or `Checkpoint` wrote to.
        average_last: For a directory, the number of last epochs whose weights are averaged. None for the
            best epoch, with the moving average of its weights if the optimizer keeps one.

    Returns:
        The model, compiled as it was.

    Raises:
        InputError: If the file is missing, damaged or has weights that are not finite or far larger than it,
            or the directory holds no whole checkpoint.
    """
    path = as_path(path)
    if path.is_dir():
        directory = path / CHECKPOINTS
        state = _whole(directory, _read_state(directory))
        if not state.saved:
            raise InputError(f"{directory} holds no checkpoint.")
        if average_last is None:
            model = _read_model(directory / _whole(directory, state, best=True).best.file)
            _apply_moving_average(model)
        else:
            model = _read_model(directory / state.saved[-1].file)
            _read_average(model, directory, state, average_last)
    else:
        model = _read_model(path)
    check_finite(path, model.weights)
    return model


def _read_average(model: keras.Model, directory: Path, state: _CheckpointState, num: int) -> None:
    """Give a model the mean of the weights of the last epochs that are whole."""
    mean = _Mean()
    for saved in (saved for saved in state.saved if saved.epoch > state.epoch - num):
        if (error := _damage(directory, saved)) is None:
            _load_weights(model, directory / saved.file)
            mean.add(model)
        else:
            warnings.warn(f"{error} It is left out of the average.", UserWarning, stacklevel=3)
    mean.assign(model)


def _whole(directory: Path, state: _CheckpointState, *, best: bool = False) -> _CheckpointState:
    """Drop damaged checkpoints until the newest, or the best, is whole; raise if none is."""
    # A damaged checkpoint costs the epochs after the one before it, and not the run.
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
        warnings.warn(f"{error} {chosen.file} is used instead.", UserWarning, stacklevel=3)
    return state


@contextlib.contextmanager
def _archive(path: Path, use: str) -> Iterator[None]:
    """Check the sizes in a `.keras` file before it is read; raise InputError for whatever fails then."""
    try:
        if zipfile.is_zipfile(path):
            # Keras compresses nothing, and refuses what expands to more than 4 GB.
            limit = 10 * (size := path.stat().st_size) + 2**26
            with zipfile.ZipFile(path) as archive:
                sizes = [part.file_size for part in archive.infolist()]
                if sum(sizes) <= limit and "model.weights.h5" in archive.namelist():
                    with h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as weights:
                        weights.visititems(lambda _, item: sizes.append(getattr(item, "nbytes", 0)))
            if sum(sizes) > limit:
                raise InputError(f"It has {size:,} bytes and would need {sum(sizes):,} bytes of memory.")
        yield
    except Exception as error:  # Keras raises errors of many classes for a damaged archive
        cause = " ".join(str(error).split())
        if path.is_file() and not zipfile.is_zipfile(path):
            cause = "it is damaged, or no .keras file."  # and not absent, as Keras says
        elif len(cause) > 600:
            cause = f"{cause[:150]} [...] {cause[-400:]}"  # the cause itself comes last
        raise InputError(f"{path} cannot be read {use}: {cause}") from error


def _read_model(path: Path) -> keras.Model:
    with _archive(path, "as a Keras model"):
        return keras.saving.load_model(path)


def _load_weights(model: keras.Model, path: Path) -> None:
    with _archive(path, "into the model"), warnings.catch_warnings():
        # Keras only warns, and leaves the optimizer as if it had never trained.
        warnings.filterwarnings("error", message="Skipping variable loading for optimizer")
        # Keras's `LossScaleOptimizer` would make its variables a second time.
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        model.load_weights(path)


def average_weights(models: Sequence[str | Path | keras.Model]) -> keras.Model:
    """Make a model whose weights are the mean of those of several models.

    Vaswani et al. 2017, section 6.1, average the last 5 checkpoints of the base model and the last 20 of
    the big one. The result is as fast as one model, and up to a point of BLEU better.

    Args:
        models: `.keras` files or models with weights of the same shapes; none of them changes.

    Returns:
        A new model of the class of the last one. Its optimizer, if any, is that of the last file.

    Raises:
        ValueError: If `models` is empty, or a weight has another shape than in the first.
        InputError: If a file is missing or damaged.

    Example:
        >>> first, second = (keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]) for _ in "ab")
        >>> for model, value in ((first, 1.0), (second, 4.0)):
        ...     _ = model.layers[0].kernel.assign([[value]])
        >>> average_weights([first, second]).get_weights()[0].item()
        2.5
    """
    if not models:
        raise ValueError(f"`models` must hold at least one file or model. Received: models={models!r}.")
    mean = _Mean()
    for source in models:
        model = source if isinstance(source, keras.Model) else _read_model(Path(source))
        mean.add(model)
    if isinstance(models[-1], keras.Model):
        # Not `clone_model`, which gives a tied output a table of its own.
        model = type(model).from_config(model.get_config())
    mean.assign(model)
    return model


class _Mean:
    """The mean of the weights of models, summed in float64."""

    # One model is in memory at a time, so only sums are kept.
    def __init__(self) -> None:
        self._num_models = 0
        self._weights: list[tuple[str, np.ndarray]] = []  # paths of the first model, and sums

    def add(self, model: keras.Model) -> None:
        self._num_models += 1
        values = [(each.path, ops.convert_to_numpy(each).astype("float64")) for each in model.weights]
        self._weights = self._weights or [(path, np.zeros_like(value)) for path, value in values]
        if len(values) != len(self._weights):
            raise ValueError(
                f"All models must have as many weights as the first, {len(self._weights)}. "
                f"Received: {len(values)} in model {self._num_models}."
            )
        for (path, value), (wanted_path, total) in zip(values, self._weights, strict=True):
            if value.shape != total.shape:
                raise ValueError(
                    f"All models must have weights of the same shapes: {wanted_path} of the first has the "
                    f"shape {total.shape}. Received: {path} of shape {value.shape} in model "
                    f"{self._num_models}."
                )
            total += value

    def assign(self, model: keras.Model) -> None:
        for weight, (_, total) in zip(model.weights, self._weights, strict=True):
            weight.assign(ops.cast((total / self._num_models).astype("float32"), weight.dtype))
