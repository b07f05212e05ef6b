"""Frames `(s, w)`, such as sensor readings, audio features or image rows: validation and normalization."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_transformer._arguments import check_number, is_text
from keras_transformer.text import Reader

Frames = npt.NDArray[np.float32]


class FrameNormalizer(Reader):
    """Normalizer of frames: subtracts the mean of each feature and divides by its standard deviation.

    A model that reads frames has a normalizer instead of a source tokenizer. A `Translator` saves it with the
    model, and an export has it in the graph, so you pass raw measurements to both.

    Args:
        mean: Mean of each feature in the training data, `w` numbers.
        variance: Variance of each feature, `w` numbers. A feature with variance 0 is centered, but not
            scaled.

    Raises:
        ValueError: If the lengths differ, a number is not finite, or a variance is negative.

    Example:
        ```python
        normalizer = FrameNormalizer.adapt(windows)  # arrays (s, w), of any lengths
        dataset = translation_dataset(zip(windows, events), normalizer, tokenizer)
        ```
    """

    kind: ClassVar[str] = "frame_normalizer"
    vocabulary_file: ClassVar[str] = "statistics.json"
    end_ids: ClassVar[tuple[int, ...]] = ()
    """Empty: frames have no end token."""

    def __init__(self, mean: Sequence[float], variance: Sequence[float]) -> None:
        super().__init__()
        self.mean, self.variance = (_statistics(mean=mean), _statistics(variance=variance))
        if len(self.mean) != len(self.variance) or not len(self.mean) or min(self.variance) < 0:
            raise ValueError(
                "`mean` and `variance` must have a number for each feature, variances at least 0. "
                f"Received: mean of {len(self.mean)}, variance of {len(self.variance)} "
                f"with minimum {min(self.variance, default=None)}."
            )
        scale = np.sqrt(np.where(np.equal(self.variance, 0), 1.0, self.variance))
        # NumPy arrays, because a graph would capture tensors as inputs.
        self._mean, self._scale = np.array(self.mean, "float32"), scale.astype("float32")

    @classmethod
    def adapt(cls, frames: Iterable[object]) -> Self:
        """Compute mean and variance of each feature over all frames, as `keras.layers.Normalization` does.

        Args:
            frames: Arrays `(s, w)` of any lengths, or one array `(n, s, w)`. Frames of NaN at the start or
                end of an array are padding.

        Returns:
            The normalizer.

        Raises:
            TypeError: If the arrays do not hold numbers.
            ValueError: If there are no frames, or for the reasons given in `as_frames`.
        """
        arrays = [array for array in as_frames("frames", frames) if len(array)]
        if not arrays:
            raise ValueError("`frames` must hold at least one frame. Received: 0 frames.")
        num_frames = sum(map(len, arrays))
        # In float64 and centered, because summing large squares loses precision.
        mean = np.sum([array.sum(axis=0, dtype="float64") for array in arrays], axis=0) / num_frames
        squares = np.sum([np.square(array - mean).sum(axis=0) for array in arrays], axis=0)
        # Rounding of the mean must not give a constant feature a variance.
        lowest, highest = (reduce([reduce(a, 0) for a in arrays], 0) for reduce in (np.min, np.max))
        is_constant = lowest == highest
        variance = np.where(is_constant, 0.0, squares / num_frames)
        return cls(np.where(is_constant, lowest, mean).tolist(), variance.tolist())

    @classmethod
    def identity(cls, feature_dim: int) -> Self:
        """Return a normalizer that leaves frames unchanged."""
        check_number(at_least=1, whole=True, feature_dim=feature_dim)
        return cls([0.0] * feature_dim, [1.0] * feature_dim)

    @property
    def feature_dim(self) -> int:
        """Number of features of a frame, `w`."""
        return len(self.mean)

    def __call__(self, frames: tf.Tensor) -> tf.Tensor:
        """Normalize frames, numbers `(..., w)`, to float32 of the same shape. NaN stays NaN."""
        return (tf.cast(frames, tf.float32) - self._mean) / self._scale

    def _vocabulary_bytes(self) -> bytes:
        return json.dumps({"mean": self.mean, "variance": self.variance}).encode()

    @classmethod
    def _restore(cls, vocabulary: bytes, options: dict[str, bool]) -> Self:
        try:
            return cls(**json.loads(vocabulary))
        except TypeError as error:
            raise ValueError(f"It must hold a mean and a variance. Received: {error!r}.") from error


def as_frames(argument: str, values: Iterable[object], feature_dim: int | None = None) -> list[Frames]:
    """Validate arrays of numbers `(s, w)` and return them as float32, without padding.

    Padding is whole frames of NaN at the start or end of an array. `argument` is the name in error messages.

    Raises:
        TypeError: If a value is not an array of numbers.
        ValueError: If a value does not have rank 2, the widths differ or are not `feature_dim`, or a value
            outside the padding is NaN or infinite.
    """
    if is_text(values) or isinstance(values, Mapping) or not isinstance(values, Iterable):
        received = f"{argument}={values!r:.200}"
        raise TypeError(f"`{argument}` must be several arrays (s, w), such as a list. Received: {received}.")
    arrays = []
    for row, value in enumerate(values):
        array = _as_frame_array(f"{argument}[{row}]", value, feature_dim)
        feature_dim = array.shape[1]
        arrays.append(array)
    return arrays


def _as_frame_array(name: str, value: object, feature_dim: int | None) -> Frames:
    try:
        array = np.asarray(value)
    # A list of lists of different lengths cannot become an array.
    except ValueError as error:
        raise TypeError(f"`{name}` must be an array (s, w). Received: {error}.") from error
    if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        raise TypeError(f"`{name}` must hold numbers. Received: dtype={array.dtype}.")
    if array.ndim != 2 or not array.shape[1] or array.shape[1] != (feature_dim or array.shape[1]):
        wanted = "(s, w), a row for each frame" if feature_dim is None else f"(s, {feature_dim})"
        raise ValueError(f"`{name}` must have the shape {wanted}. Received: shape={array.shape}.")
    with np.errstate(over="ignore"):  # float32 overflow becomes infinity, which is rejected below
        array = array.astype("float32", copy=False)
    is_finite = np.isfinite(array)
    if is_finite.all():
        return array
    # Whole frames of NaN at the ends are padding, which gives arrays the same length.
    rows = np.flatnonzero(~np.isnan(array).all(axis=1))
    first, last = (rows[0], rows[-1] + 1) if len(rows) else (0, 0)
    wrong = np.argwhere(~is_finite[first:last])
    if len(wrong):
        frame, feature = wrong[0]
        raise ValueError(
            f"`{name}` must hold finite numbers, except whole frames of NaN at its ends, which are padding. "
            f"Received: {array[first + frame, feature]} in frame {first + frame}, feature {feature}."
        )
    return array[first:last]


def _statistics(**numbers: Sequence[float]) -> tuple[float, ...]:
    [(name, values)] = numbers.items()
    array = np.asarray(values)
    if array.dtype.kind not in "fiu" or array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError(f"`{name}` must be finite numbers (w,). Received: {name}={values!r:.200}.")
    return tuple(float(value) for value in array)
