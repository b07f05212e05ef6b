"""Log-mel features of audio as TensorFlow operations, for speech models."""

import json
import math
from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_transformer.text import Reader
from keras_transformer.types import Batch, Columns, Shape, Value

_RATE = 16_000  # samples per second
_HOP = 160  # samples between frames
_WIDTH = 400  # samples per window
_HIGHEST = 8_000.0  # Hertz
# Minimum power, and range of the features below the loudest one (in powers of 10).
_FLOOR, _RANGE = 1e-10, 8.0
# The mel scale is linear up to 1000 Hz and logarithmic above.
_BREAK, _PER_MEL, _STEP = 1000.0, 200.0 / 3.0, math.log(6.4) / 27.0


class _LogMel(Reader):
    """Log-mel features as in Whisper: 100 frames per second of 16 kHz audio."""

    kind: ClassVar[str] = "log_mel"
    vocabulary_file: ClassVar[str] = "features.json"
    columns: ClassVar[Columns] = {"audio": ("float32", 2)}
    unit: ClassVar[str] = "frames"
    # The shortest audio, and silence.
    hard_values = (np.ones(1, "float32"), np.zeros(700, "float32"))

    def __init__(self, num_mels: int, seconds: int) -> None:
        super().__init__()
        self.num_mels, self.seconds = num_mels, seconds
        self._filters = tf.constant(_mel_filters(num_mels), tf.float64)

    def frames(self, samples: tf.Tensor, max_length: int) -> tf.Tensor:
        """Return frames `(b, s, w)` of samples `(b, n)`, padded with silence."""
        num_samples = self.seconds * _RATE
        samples = tf.cast(samples, tf.float32)[:, : self._num_samples(max_length)]
        samples = tf.pad(samples, [[0, 0], [0, num_samples - tf.shape(samples)[1]]])
        samples = tf.ensure_shape(samples, [None, num_samples])
        # One recording at a time: windows need many times the memory of the samples.
        frames = tf.map_fn(self._frames, samples)
        return tf.reshape(frames, [-1, num_samples // _HOP, self.num_mels])

    @property
    def feature_dim(self) -> int:
        """Number of mels of each frame."""
        return self.num_mels

    @property
    def about(self) -> str:
        """Description of the input in the README of an export."""
        return (
            "`audio` has one row of samples per recording: mono, 16 kHz, from -1 to 1, padded with zeros\n"
            f"at the end. The first {self.seconds} seconds of each are read. The graph computes the\n"
            "log-mel features."
        )

    @property
    def input_specs(self) -> tuple[tuple[Shape, str], ...]:
        return (((None, None, self.num_mels), "float32"),)

    def example(self) -> Value:
        return np.zeros(_RATE, "float32")

    @classmethod
    def check(cls, argument: str, values: Iterable[object]) -> list[Value]:
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise TypeError(
                f"`{argument}` must be several arrays, such as a list. Received: {argument}={values!r}."
            )
        arrays = [np.asarray(samples) for samples in values]
        for row, samples in enumerate(arrays):
            # Integers would be raw samples of a file, up to 32767.
            if samples.dtype.kind != "f" or samples.ndim != 1:
                received = f"{argument}[{row}] of {samples.dtype} and shape {samples.shape}"
                raise TypeError(
                    f"`{argument}` must hold samples from -1 to 1, floats (n,). Received: {received}."
                )
            if not np.isfinite(samples).all():
                received = f"NaN or infinity in {argument}[{row}]"
                raise ValueError(f"`{argument}` must hold finite samples. Received: {received}.")
        return [samples.astype("float32", copy=False) for samples in arrays]

    @classmethod
    def batch(cls, values: Sequence[Value]) -> Batch:
        joined = np.zeros((len(values), max(map(len, values), default=0)), "float32")
        for row, samples in zip(joined, values, strict=True):
            row[: len(samples)] = samples
        return (tf.constant(joined),)

    def read(self, columns: Batch, max_length: int) -> tuple[Batch, tf.Tensor]:
        [samples] = columns
        # Zeros may be padding.
        is_cut = tf.reduce_any(samples[:, self._num_samples(max_length) :] != 0, axis=1)
        return (self.frames(samples, max_length),), is_cut

    def is_empty(self, columns: Batch) -> tf.Tensor:
        # In a batch, silence and missing audio look the same.
        return tf.zeros(tf.shape(columns[0])[:1], "bool")

    def position_names(self, inputs: Batch, stride: int) -> tf.Tensor:
        """Return the time of each encoder position of frames `(b, s, w)`, in seconds."""
        [frames] = inputs
        times = tf.strings.as_string(tf.range(0, tf.shape(frames)[1], stride) / 100, precision=2)
        return tf.tile(times[None], [tf.shape(frames)[0], 1])

    def _num_samples(self, max_length: int) -> int:
        """Return the maximum number of samples that are read."""
        return min(self.seconds * _RATE, max_length * _HOP)

    def _frames(self, samples: tf.Tensor) -> tf.Tensor:
        # (n,) -> (s, 201) -> (s, w). In float64: neighboring bands may differ by a factor of 1e8.
        samples = tf.pad(tf.cast(samples, tf.float64), [[_WIDTH // 2, _WIDTH // 2]], "REFLECT")
        window = tf.signal.hann_window(_WIDTH, periodic=True, dtype=tf.float64)
        windows = tf.signal.frame(samples, _WIDTH, _HOP)[:-1] * window
        power = tf.square(tf.abs(tf.signal.rfft(windows)))
        logs = tf.math.log(tf.maximum(power @ self._filters, _FLOOR)) / math.log(10)
        logs = tf.maximum(logs, tf.reduce_max(logs) - _RANGE)
        return tf.cast((logs + 4.0) / 4.0, tf.float32)

    def _vocabulary_bytes(self) -> bytes:
        return json.dumps({"num_mels": self.num_mels, "seconds": self.seconds}).encode()

    @classmethod
    def _restore(cls, vocabulary: bytes, options: dict[str, bool]) -> Self:
        try:
            return cls(**json.loads(vocabulary), **options)
        except TypeError as error:
            raise ValueError(f"It must describe features. Received: {error!r}.") from error


def _mel_filters(num_mels: int) -> npt.NDArray[np.float64]:
    """Return triangular filters of equal area over the frequencies, `(201, w)` (Slaney's mel scale)."""
    edges = _hertz(np.linspace(0.0, _BREAK / _PER_MEL + math.log(_HIGHEST / _BREAK) / _STEP, num_mels + 2))
    frequencies = np.linspace(0.0, _RATE / 2, _WIDTH // 2 + 1)[:, None]
    left, center, right = edges[:-2], edges[1:-1], edges[2:]
    rising = (frequencies - left) / (center - left)
    falling = (right - frequencies) / (right - center)
    return np.maximum(0.0, np.minimum(rising, falling)) * 2.0 / (right - left)


def _hertz(mels: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    first = _BREAK / _PER_MEL
    return np.where(mels < first, mels * _PER_MEL, _BREAK * np.exp(_STEP * (mels - first)))
