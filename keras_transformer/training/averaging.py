"""One model from the last checkpoints: the mean of their weights."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_transformer.training.model_files import load_model


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
