"""Frames as a source: sensor readings, audio features, rows of images."""

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
    """Frames `(s, w)` as they were measured, normalized in the graph.

    Args:
        normalizer: The statistics of the training data.
    """

    reader = FrameNormalizer
    columns: ClassVar[Columns] = {"features": ("float32", 3), "padding_mask": ("bool", 2)}
    unit = "frames"

    def __init__(self, normalizer: FrameNormalizer) -> None:
        self._normalizer = normalizer
        self._frames_per_vector = 1  # of the encoder
        width = normalizer.feature_dim
        mean = np.array([normalizer.mean], "float32")  # (1, w)
        # No frames, one, and one that is far from all that was trained on.
        self.hard_values = (mean[:0], mean, 100 * mean + 100)
        self.about = (
            f"`features` are frames of {width} numbers, as they were measured: the graph normalizes them.\n"
            "`padding_mask` is true where there is a frame, false behind the shorter sources of a batch.\n"
            "Hidden frames, and those with NaN in them, are left out. No frames have an empty output."
        )

    @classmethod
    def default_reader(cls, model: keras.Model) -> Reader | None:
        """Return a reader that changes nothing, for a model that reads frames."""
        width = _feature_dim(model)
        return None if width is None else FrameNormalizer.identity(width)

    @property
    def input_specs(self) -> tuple[tuple[Shape, str], ...]:
        """The shapes and dtypes of frames and their mask."""
        return ((None, None, self._normalizer.feature_dim), "float32"), ((None, None), "bool")

    def check_model(self, model: keras.Model) -> None:
        """Raise `ValueError` for a model of other frames; note how many become one vector."""
        width = _feature_dim(model)
        if width != self._normalizer.feature_dim:
            raise ValueError(
                "`source_tokenizer` must normalize the frames of the model. Received: a normalizer of "
                f"{self._normalizer.feature_dim} features, a model with encoder_feature_dim={width}."
            )
        self._frames_per_vector = _frames_per_vector(model)

    @classmethod
    def longest(cls, model: keras.Model) -> int | None:
        """Return the most frames that learned positions allow, None for other positions."""
        config = _config(model)
        positions = getattr(config, "max_source_positions", None) or getattr(model, "max_length", None)
        return None if positions is None else positions * _frames_per_vector(model)

    def example(self) -> Value:
        """Return a few mean frames."""
        return np.repeat(np.array([self._normalizer.mean], "float32"), 8, axis=0)

    @classmethod
    def check(cls, argument: str, values: Iterable[object]) -> list[Value]:
        """Return arrays `(s, w)` of finite float32; see `data.as_frames`."""
        return [*as_frames(argument, values)]

    @classmethod
    def is_one(cls, value: object) -> bool:
        """Return whether a value is one array `(s, w)`, and not several."""
        return len(getattr(value, "shape", ())) == 2

    @classmethod
    def batch(cls, values: Sequence[Value]) -> Batch:
        """Join arrays into frames, float32 `(b, s, w)`, and their mask, boolean `(b, s)`."""
        arrays = [np.asarray(value) for value in values]
        width = arrays[0].shape[1] if arrays else 1
        frames = np.zeros((len(arrays), max(map(len, arrays), default=0), width), "float32")
        for row, array in zip(frames, arrays, strict=True):
            row[: len(array)] = array
        lengths = np.array([len(array) for array in arrays], int)
        return tf.constant(frames), tf.constant(np.arange(frames.shape[1]) < lengths[:, None])

    def read(self, columns: Batch, max_length: int) -> tuple[Batch, tf.Tensor]:
        """Return normalized frames `(b, s, w)`, their mask `(b, s)`, and which rows were cut off, `(b,)`."""
        frames, is_seen = self._seen(columns)
        # Those that are seen come first, in their order: what is between them or before them must not count,
        # also where positions are relative or convolutions have strides.
        size = tf.shape(is_seen)[1]
        places = tf.range(size) + tf.where(is_seen, 0, size)  # (b, s)
        # A column even where there is none: a reshape cannot tell the size of 0 elements.
        order = tf.argsort(places, axis=1)[:, :max_length]
        room = [[0, 0], [0, tf.maximum(1 - size, 0)]]
        mask = tf.pad(tf.gather(is_seen, order, batch_dims=1), room)
        frames = tf.pad(tf.gather(frames, order, batch_dims=1), [*room, [0, 0]])
        frames = tf.where(mask[..., None], self._normalizer(frames), 0.0)
        is_cut = tf.reduce_sum(tf.cast(is_seen, tf.int32), axis=1) > max_length
        return (tf.ensure_shape(frames, [None, None, self._normalizer.feature_dim]), mask), is_cut

    def is_empty(self, columns: Batch) -> tf.Tensor:
        """Return which rows have no frame that is seen, boolean `(b,)`."""
        return ~tf.reduce_any(self._seen(columns)[1], axis=1)

    def tokens(self, inputs: Batch) -> tf.Tensor:
        """Name each vector of the encoder by the number of its frame, from 0, string `(b, s)`."""
        mask = inputs[1][:, :: self._frames_per_vector]
        numbers = tf.range(tf.shape(mask)[1]) * self._frames_per_vector
        return tf.where(mask, tf.strings.as_string(numbers), "")

    def _seen(self, columns: Batch) -> Batch:
        """Return frames and which of them count: those of the mask that are finite."""
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
            # Of no frames the width may be any.
            frames = tf.reshape(frames, [*tf.unstack(tf.shape(mask)), width])
        # Not `is_finite`, which LiteRT does not have.
        return frames, mask & tf.reduce_all(tf.abs(frames) <= tf.float32.max, axis=-1)


def _config(model: keras.Model) -> object:
    """Return the configuration of a model; of an ensemble, that of its first."""
    return getattr(getattr(model, "members", [model])[0], "config", None)


def _feature_dim(model: keras.Model) -> int | None:
    config = _config(model)  # of a `Transformer` or an `EncoderModel`
    return getattr(config, "encoder_feature_dim", getattr(config, "feature_dim", None))


def _frames_per_vector(model: keras.Model) -> int:
    return 2 if getattr(_config(model), "source_convolutions", False) else 1
