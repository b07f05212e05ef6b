"""Log-mel features of audio, in the graph: what a model of speech has in place of a source tokenizer."""

import json
import math
from collections.abc import Iterable, Sequence
from typing import ClassVar, Self, TypeAlias

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_transformer.tasks import Source
from keras_transformer.text import Reader
from keras_transformer.types import Columns, Shape, Value

_Batch: TypeAlias = tuple[tf.Tensor, ...]

_RATE = 16_000  # samples in a second
_HOP = 160  # samples from one frame to the next
_WIDTH = 400  # samples of a window
_HIGHEST = 8_000.0  # Hertz
# The least power of which there is a logarithm, and how far below the loudest a feature may be.
_FLOOR, _RANGE = 1e-10, 8.0
# The scale of mels is linear up to 1000 Hertz, and logarithmic above.
_BREAK, _PER_MEL, _STEP = 1000.0, 200.0 / 3.0, math.log(6.4) / 27.0


class _LogMel(Reader):
    """Frames in place of token ids: 100 for each second of audio at 16 kHz, as Whisper reads them."""

    kind: ClassVar[str] = "log_mel"
    vocabulary_file: ClassVar[str] = "features.json"

    def __init__(self, num_mels: int, seconds: int) -> None:
        super().__init__()
        self.num_mels, self.seconds = num_mels, seconds
        self._filters = tf.constant(_mel_filters(num_mels), tf.float64)

    def frames(self, samples: tf.Tensor, max_length: int) -> tf.Tensor:
        """Turn samples `(b, n)` into frames `(b, s, w)`, of which silence fills up all after the audio."""
        num_samples = self.seconds * _RATE
        samples = tf.cast(samples, tf.float32)[:, : self.longest(max_length)]
        samples = tf.pad(samples, [[0, 0], [0, num_samples - tf.shape(samples)[1]]])
        samples = tf.ensure_shape(samples, [None, num_samples])
        # One after the other, since windows take many times the memory of their samples.
        frames = tf.map_fn(self._frames, samples)
        return tf.reshape(frames, [-1, num_samples // _HOP, self.num_mels])

    def longest(self, max_length: int) -> int:
        """Return how many samples are read."""
        return min(self.seconds * _RATE, max_length * _HOP)

    def tokens(self, token_ids: tf.Tensor) -> tf.Tensor:
        """Name what an encoder with two convolutions makes of frames `(b, s, w)`: by its time, in seconds."""
        times = tf.strings.as_string(tf.range(0, tf.shape(token_ids)[1], 2) / 100, precision=2)
        return tf.tile(times[None], [tf.shape(token_ids)[0], 1])

    def _frames(self, samples: tf.Tensor) -> tf.Tensor:
        # (n,) -> (s, 201) -> (s, w). In float64, since a quiet band stands next to one that is 1e8 louder.
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


class _Audio(Source):
    """Samples at 16 kHz, whose log-mel features a model reads."""

    reader = _LogMel
    columns: ClassVar[Columns] = {"audio": ("float32", 2)}
    unit = "frames"
    # The least audio, and silence.
    hard_values = (np.ones(1, "float32"), np.zeros(700, "float32"))

    def __init__(self, reader: _LogMel) -> None:
        self._features = reader
        self.about = (
            "`audio` is a row of samples from -1 to 1 for each recording, mono, 16 kHz, with zeros behind\n"
            f"the shorter ones; the first {reader.seconds} seconds of each are read. Log-mel features are\n"
            "computed in the graph."
        )

    @property
    def input_specs(self) -> tuple[tuple[Shape, str], ...]:
        return (((None, None, self._features.num_mels), "float32"),)

    def check_model(self, model: keras.Model) -> None:
        config = getattr(model, "config", None)
        width = getattr(config, "encoder_feature_dim", None)
        if width != self._features.num_mels:
            raise ValueError(
                "`source_tokenizer` must have the frames of the model. Received: frames of "
                f"{self._features.num_mels} mels, a model with encoder_feature_dim={width}."
            )

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
            # Whole numbers would be those of a file, up to 32767.
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
    def batch(cls, values: Sequence[Value]) -> _Batch:
        joined = np.zeros((len(values), max(map(len, values), default=0)), "float32")
        for row, samples in zip(joined, values, strict=True):
            row[: len(samples)] = samples
        return (tf.constant(joined),)

    def read(self, columns: _Batch, max_length: int) -> tuple[_Batch, tf.Tensor]:
        [samples] = columns
        # Zeros are the padding of a batch, too.
        is_cut = tf.reduce_any(samples[:, self._features.longest(max_length) :] != 0, axis=1)
        return (self._features.frames(samples, max_length),), is_cut

    def is_empty(self, columns: _Batch) -> tf.Tensor:
        # In a batch nothing tells silence from no audio.
        return tf.zeros(tf.shape(columns[0])[:1], "bool")

    def tokens(self, inputs: _Batch) -> tf.Tensor:
        return self._features.tokens(inputs[0])


def _mel_filters(num_mels: int) -> npt.NDArray[np.float64]:
    """Return triangles of equal area over the frequencies, `(201, w)`, as Slaney's toolbox has them."""
    edges = _hertz(np.linspace(0.0, _BREAK / _PER_MEL + math.log(_HIGHEST / _BREAK) / _STEP, num_mels + 2))
    frequencies = np.linspace(0.0, _RATE / 2, _WIDTH // 2 + 1)[:, None]
    left, center, right = edges[:-2], edges[1:-1], edges[2:]
    rising = (frequencies - left) / (center - left)
    falling = (right - frequencies) / (right - center)
    return np.maximum(0.0, np.minimum(rising, falling)) * 2.0 / (right - left)


def _hertz(mels: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    first = _BREAK / _PER_MEL
    return np.where(mels < first, mels * _PER_MEL, _BREAK * np.exp(_STEP * (mels - first)))
