"""Weight averages: of several models, and the moving average that an optimizer keeps."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import keras
import numpy as np
from keras import ops

from keras_transformer._arguments import check_several
from keras_transformer.training.checkpoint_state import _read_model


def average_weights(models: Sequence[str | Path | keras.Model]) -> keras.Model:
    """Build a model with the average weights of several models.

    Vaswani et al. 2017, section 6.1, average the last 5 checkpoints of the base model and the last 20 of the
    big one. The average decodes as fast as a single model and gains up to one BLEU point.

    Args:
        models: `.keras` files or models with weights of equal shapes. They do not change.

    Returns:
        A new model of the class of the last one. If the last is a file, the model has the file's optimizer.

    Raises:
        ValueError: If `models` is empty, or a weight has another shape than in the first model.
        InputError: If a file is missing or damaged.

    Example:
        >>> first, second = (keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]) for _ in "ab")
        >>> for model, value in ((first, 1.0), (second, 4.0)):
        ...     _ = model.layers[0].kernel.assign([[value]])
        >>> average_weights([first, second]).get_weights()[0].item()
        2.5
    """
    check_several((str, Path, keras.Model), models=models)
    if not models:
        raise ValueError(f"`models` must hold at least one file or model. Received: models={models!r}.")
    mean = _Mean()
    for source in models:
        model = source if isinstance(source, keras.Model) else _read_model(Path(source))
        mean.add(model)
    if isinstance(models[-1], keras.Model):
        # Not `clone_model`, which would untie the output projection from the embedding.
        model = type(model).from_config(model.get_config())
    mean.assign(model)
    return model


class _Mean:
    """Mean of the weights of models, summed in float64."""

    # Only sums are kept, so that one model at a time is in memory.
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


def _apply_moving_average(model: keras.Model) -> None:
    """Replace the weights by their moving average if the optimizer keeps one."""
    if _has_average(model.optimizer):
        model.optimizer.finalize_variable_values(model.trainable_weights)
        for weight in model.trainable_weights:
            # On JAX the weight would share the optimizer's buffer, which the next step donates.
            weight.assign(ops.copy(weight))


@contextlib.contextmanager
def moving_average(model: keras.Model) -> Iterator[None]:
    """Use the moving average of the weights inside a `with` block, then restore the weights.

    Args:
        model: Compiled model. It does not change if its optimizer keeps no average or has made no update.

    Yields:
        None.

    Example:
        >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        >>> model.compile(keras.optimizers.SGD(use_ema=True), "mse")
        >>> with moving_average(model):
        ...     outputs = model(keras.ops.ones((3, 1)))
    """
    kept = _swap_in(model)
    try:
        yield
    finally:
        _assign(model, kept)


class _EvaluateMovingAverage(keras.callbacks.Callback):
    """Callback that validates with the moving average of the weights."""

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._kept: list[np.ndarray] = []  # discard the weights of an interrupted validation

    def on_test_begin(self, logs: dict[str, float] | None = None) -> None:
        self._kept = _swap_in(self.model)

    def on_test_end(self, logs: dict[str, float] | None = None) -> None:
        _assign(self.model, self._kept)
        self._kept = []


def _swap_in(model: keras.Model) -> list[np.ndarray]:
    """Put the average into a model and return the old weights; an empty list if there is no average."""
    if not _has_average(model.optimizer):
        return []
    # Keep exact values: `keras.callbacks.SwapEMAWeights` on TensorFlow swaps by adding and subtracting, which
    # rounds. Copy, because torch and NumPy would share the memory that is about to change.
    kept = [ops.convert_to_numpy(weight).copy() for weight in model.trainable_weights]
    _apply_moving_average(model)
    return kept


def _assign(model: keras.Model, values: list[np.ndarray]) -> None:
    for weight, value in zip(model.trainable_weights, values, strict=bool(values)):
        weight.assign(value)


def _has_average(optimizer: keras.optimizers.Optimizer) -> bool:
    """Return whether an optimizer keeps an average that has been updated; before that it is zero."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # in a `LossScaleOptimizer`
    return bool(getattr(inner, "use_ema", False)) and int(ops.convert_to_numpy(inner.iterations)) > 0
