"""Frames `(s, w)`, such as sensor readings, audio features or image rows: validation and normalization."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_transformer._arguments import check_number, is_text
from keras_transformer.text import Reader
from keras_transformer.types import Batch, Columns, Shape, Value

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
    columns: ClassVar[Columns] = {"features": ("float32", 3), "padding_mask": ("bool", 2)}
    unit: ClassVar[str] = "frames"

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

    @property
    def hard_values(self) -> tuple[Value, ...]:
        """No frames, one frame, and one far from the training data."""
        mean = np.array([self.mean], "float32")  # (1, w)
        return mean[:0], mean, 100 * mean + 100

    @property
    def about(self) -> str:
        """Description of the input in the README of an export."""
        return (
            f"`features` are unnormalized frames of {self.feature_dim} numbers; the graph normalizes them.\n"
            "`padding_mask` is true for frames, false for the padding after shorter sources of a batch.\n"
            "Frames for which it is false, or that contain NaN or infinity, are skipped. A source without\n"
            "frames has an empty output."
        )

    @property
    def input_specs(self) -> tuple[tuple[Shape, str], ...]:
        """Shapes and dtypes of the frames and their mask."""
        return ((None, None, self.feature_dim), "float32"), ((None, None), "bool")

    def example(self) -> Value:
        """Return an example source: eight equal frames, the mean of the training data."""
        return np.repeat(np.array([self.mean], "float32"), 8, axis=0)

    @classmethod
    def check(cls, argument: str, values: Iterable[object]) -> list[Value]:
        """Return finite float32 arrays `(s, w)`; see `data.as_frames`."""
        return [*as_frames(argument, values)]

    @classmethod
    def is_one(cls, value: object) -> bool:
        """Return whether a value is a single array `(s, w)`."""
        return len(getattr(value, "shape", ())) == 2

    @classmethod
    def batch(cls, values: Sequence[Value]) -> Batch:
        """Convert arrays to frames, float32 `(b, s, w)`, and their mask, boolean `(b, s)`."""
        arrays = [np.asarray(value) for value in values]
        width = arrays[0].shape[1] if arrays else 1
        frames = np.zeros((len(arrays), max(map(len, arrays), default=0), width), "float32")
        for row, array in zip(frames, arrays, strict=True):
            row[: len(array)] = array
        lengths = np.array([len(array) for array in arrays], int)
        return tf.constant(frames), tf.constant(np.arange(frames.shape[1]) < lengths[:, None])

    def read(self, columns: Batch, max_length: int) -> tuple[Batch, tf.Tensor]:
        """Return normalized frames `(b, s, w)`, their mask `(b, s)`, and which rows were truncated."""
        frames, is_valid = self._valid_frames(columns)
        # Valid frames are moved to the front, in their order, so that invalid ones in between have no effect
        # on relative positions or convolutions with strides.
        size = tf.shape(is_valid)[1]
        sort_keys = tf.range(size) + tf.where(is_valid, 0, size)  # (b, s)
        # At least one column: a reshape cannot infer the size of 0 elements.
        order = tf.argsort(sort_keys, axis=1)[:, :max_length]
        padding = [[0, 0], [0, tf.maximum(1 - size, 0)]]
        mask = tf.pad(tf.gather(is_valid, order, batch_dims=1), padding)
        frames = tf.pad(tf.gather(frames, order, batch_dims=1), [*padding, [0, 0]])
        frames = tf.where(mask[..., None], self(frames), 0.0)
        is_cut = tf.reduce_sum(tf.cast(is_valid, tf.int32), axis=1) > max_length
        return (tf.ensure_shape(frames, [None, None, self.feature_dim]), mask), is_cut

    def is_empty(self, columns: Batch) -> tf.Tensor:
        """Return which rows have no valid frame, boolean `(b,)`."""
        return ~tf.reduce_any(self._valid_frames(columns)[1], axis=1)

    def position_names(self, inputs: Batch, stride: int) -> tf.Tensor:
        """Return a name for each encoder output, string `(b, s)`: the index of its first frame."""
        mask = inputs[1][:, ::stride]
        return tf.where(mask, tf.strings.as_string(tf.range(tf.shape(mask)[1]) * stride), "")

    def _valid_frames(self, columns: Batch) -> Batch:
        """Return the frames and which of them are valid: True in the mask, and finite."""
        frames, mask = columns
        width = self.feature_dim
        if frames.shape[-1] not in (None, width) and frames.shape[0] != 0:
            raise ValueError(
                f"Frames must have the {width} features of the model. Received: shape={tuple(frames.shape)}."
            )
        checks = [
            tf.debugging.assert_equal(
                tf.shape(frames)[:2], tf.shape(mask), "`features` and `padding_mask` must have one (b, s)."
            ),
            tf.debugging.Assert(
                (tf.shape(frames)[2] == width) | (tf.size(mask) == 0),
                [f"`features` must have {width} numbers in each frame. Received:", tf.shape(frames)[2]],
            ),
        ]
        with tf.control_dependencies([check for check in checks if check is not None]):
            # An empty batch may have any width.
            frames = tf.reshape(frames, [*tf.unstack(tf.shape(mask)), width])
        # Not `is_finite`, which LiteRT lacks.
        return frames, mask & tf.reduce_all(tf.abs(frames) <= tf.float32.max, axis=-1)

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
