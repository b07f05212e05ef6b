"""Frames as sources: sensor readings, audio features, rows of images."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.data import FrameNormalizer, as_frames
from keras_transformer.tasks.sources import Batch, Source
from keras_transformer.text import Reader
from keras_transformer.types import Columns, Shape, Value


class FrameSource(Source):
    """The source side of a model that reads frames. It normalizes the frames in the graph of an export.

    Args:
        normalizer: Statistics of the training data.
    """

    reader = FrameNormalizer
    columns: ClassVar[Columns] = {"features": ("float32", 3), "padding_mask": ("bool", 2)}
    unit = "frames"

    def __init__(self, normalizer: FrameNormalizer) -> None:
        self._normalizer = normalizer
        self._frames_per_vector = 1  # number of frames for each encoder output
        width = normalizer.feature_dim
        mean = np.array([normalizer.mean], "float32")  # (1, w)
        # No frames, one frame, and one far from the training data.
        self.hard_values = (mean[:0], mean, 100 * mean + 100)
        self.about = (
            f"`features` are unnormalized frames of {width} numbers; the graph normalizes them.\n"
            "`padding_mask` is true for frames, false for the padding after shorter sources of a batch.\n"
            "Frames for which it is false, or that contain NaN or infinity, are skipped. A source without\n"
            "frames has an empty output."
        )

    @classmethod
    def default_reader(cls, model: keras.Model) -> Reader | None:
        """Return an identity normalizer for a model that reads frames, else None."""
        width = _feature_dim(model)
        return None if width is None else FrameNormalizer.identity(width)

    @property
    def input_specs(self) -> tuple[tuple[Shape, str], ...]:
        """Shapes and dtypes of the frames and their mask."""
        return ((None, None, self._normalizer.feature_dim), "float32"), ((None, None), "bool")

    def check_model(self, model: keras.Model) -> None:
        """Raise `ValueError` if the model reads frames of another width.

        Also store how many frames the model merges into one encoder output.
        """
        width = _feature_dim(model)
        if width != self._normalizer.feature_dim:
            raise ValueError(
                "`source_tokenizer` must normalize the frames of the model. Received: a normalizer of "
                f"{self._normalizer.feature_dim} features, a model with encoder_feature_dim={width}."
            )
        self._frames_per_vector = model.source_stride

    def example(self) -> Value:
        """Return an example source: eight equal frames, the mean of the training data."""
        return np.repeat(np.array([self._normalizer.mean], "float32"), 8, axis=0)

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
        frames = tf.where(mask[..., None], self._normalizer(frames), 0.0)
        is_cut = tf.reduce_sum(tf.cast(is_valid, tf.int32), axis=1) > max_length
        return (tf.ensure_shape(frames, [None, None, self._normalizer.feature_dim]), mask), is_cut

    def is_empty(self, columns: Batch) -> tf.Tensor:
        """Return which rows have no valid frame, boolean `(b,)`."""
        return ~tf.reduce_any(self._valid_frames(columns)[1], axis=1)

    def tokens(self, inputs: Batch) -> tf.Tensor:
        """Return a name for each encoder output, string `(b, s)`: the index of its first frame."""
        mask = inputs[1][:, :: self._frames_per_vector]
        numbers = tf.range(tf.shape(mask)[1]) * self._frames_per_vector
        return tf.where(mask, tf.strings.as_string(numbers), "")

    def _valid_frames(self, columns: Batch) -> Batch:
        """Return the frames and which of them are valid: True in the mask, and finite."""
        frames, mask = columns
        width = self._normalizer.feature_dim
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


def _feature_dim(model: keras.Model) -> int | None:
    config = getattr(model, "config", None)  # of a `Transformer` or an `EncoderModel`
    return getattr(config, "encoder_feature_dim", getattr(config, "feature_dim", None))
