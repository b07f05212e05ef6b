"""Frames run: arrays and their target texts, normalization, a tokenizer, a `Translator`."""

import hashlib
import shlex
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.data import FrameNormalizer, read_frame_pairs
from keras_transformer.models.config import TransformerConfig
from keras_transformer.models.transformer import Transformer
from keras_transformer.runs.config import FileName, RunConfig, _DataSection, _ModelSection
from keras_transformer.runs.kind import Readers, RunData, RunKind
from keras_transformer.runs.recipe import choose_kind
from keras_transformer.runs.translation import TranslationRun
from keras_transformer.runs.translation_options import _DecodingSection, _TranslationTraining
from keras_transformer.types import Length

_Pair: TypeAlias = tuple[np.ndarray, str]


class _FramesSection(_DataSection):
    """Training, validation and test frames, their targets, and length limits."""

    frames: FileName | None = None
    """Training frames (arrays `(s, w)`): a directory of `.npy` files, or a `.npy`, `.npz` or `.tfrecord`
    file."""
    targets: FileName | None = None
    """Targets of `frames`: a `.tsv` file with two columns (name of a `.npy` file or `.npz` array, target), or
    a file with one target per line. Defaults to the targets stored in `frames`."""
    validation_frames: FileName | None = None
    """Validation frames, to select the best epoch. Defaults to a held-out part of the training data."""
    validation_targets: FileName | None = None
    """Targets of `validation_frames`."""
    test_frames: FileName | None = None
    """Test frames, to score after training."""
    test_targets: FileName | None = None
    """Targets of `test_frames`."""
    max_source_length: Length = 256
    """Maximum source length in tokens (with the end token) or frames. Longer training examples are
    dropped."""
    max_target_length: Length = 256
    """Maximum target length in tokens, including the end token. Longer training examples are dropped."""


class _FrameModelSection(_ModelSection):
    """A preset, and any fields that override it. The width of a frame follows from the data."""

    decided_elsewhere: ClassVar[tuple[str, ...]] = tuple(
        name for name in _ModelSection.decided_elsewhere if name != "source_convolutions"
    )

    def transformer(self, longest: int = 1, **decided: object) -> TransformerConfig:
        # On 3,500 windows of three sensors: 99.5 % exact match in 4:43, without convolutions 97.0 % in 6:56.
        return super().transformer(
            longest, **{"encoder_feature_dim": 1, "source_convolutions": True, **decided}
        )


class FramesConfig(RunConfig):
    """Configuration of a run that trains a `Translator` on frames."""

    task: Literal["frames"] = "frames"
    """Task to train for."""
    data: _FramesSection = _FramesSection()
    model: _FrameModelSection = _FrameModelSection()
    training: _TranslationTraining = _TranslationTraining()
    decoding: _DecodingSection = _DecodingSection()


class FrameRun(TranslationRun):
    """Run on frames; an example is an array `(s, w)` and its target text."""

    config_class = FramesConfig
    noun = "examples"
    needs = "frames: --frames DIRECTORY"
    template = "frames.html"
    reads = "features"
    sides = (1,)
    config: Any

    def read(self) -> RunData:
        """Read all examples. Without validation files, a part of the training examples is held out."""
        return RunKind.read(self)  # all frames are kept in memory

    def origin(self, prefix: str) -> tuple[str, str | None] | None:
        """Return the files of frames and targets."""
        data = self.config.data
        frames = getattr(data, f"{prefix}frames")
        return None if frames is None else (frames, getattr(data, f"{prefix}targets"))

    def read_from(self, origin: Any, split: str = "train", *, unique: bool = False) -> list[Any]:
        """Read frames and their targets."""
        return [*read_frame_pairs(*origin)]

    def key(self, example: _Pair) -> str:
        """Return a checksum of the frames."""
        return hashlib.sha256(f"{example[0].shape}".encode() + example[0].tobytes()).hexdigest()

    def fingerprint(self, examples: Sequence[_Pair]) -> str:
        """Return a checksum of the frames, the targets and their order."""
        digest = hashlib.sha256()
        for frames, target in examples:
            digest.update(f"{frames.shape} {len(target)} {target}\n".encode() + frames.tobytes())
        return digest.hexdigest()

    def shown(self, source: np.ndarray) -> str:
        """Describe frames by their number and width."""
        return f"{len(source)} frames of {source.shape[1]}"

    def make_readers(self, data: RunData) -> Readers:
        """Compute the mean and variance of the frames, and train the tokenizer of the targets."""
        targets = [target for _, target in data.train]
        tokenizer = self.new_tokenizer(targets, choose_kind(self.config.vocabulary.kind, targets, targets))
        return FrameNormalizer.adapt(frames for frames, _ in data.train), tokenizer

    def _noise(self, readers: Readers) -> list[Callable[[tf.data.Dataset], tf.data.Dataset]]:
        return []

    def new_model(self, readers: Readers, dtype: keras.DTypePolicy) -> Transformer:
        """Build a model for the width of the frames and the vocabulary size."""
        normalizer, tokenizer = readers
        known = self.model_config(
            readers,
            max(self.longest, self.config.decoding.max_target_length),
            encoder_feature_dim=normalizer.feature_dim,
            target_vocabulary_size=tokenizer.vocabulary_size,
        )
        return Transformer(**known.options(), dtype=dtype)

    def checked(self, examples: Sequence[_Pair]) -> list[_Pair]:
        """Return the examples."""
        return [*examples]

    def source(self, example: _Pair) -> list[list[float]]:
        """Return frames as nested lists of numbers."""
        return example[0].tolist()

    def command(self, example: _Pair, version: str) -> str:
        """Return a command that runs an export on the frames of the run."""
        frames = self.config.data.test_frames or self.config.data.frames
        return f"keras-transformer {self.verb} --saved-model {version} --frames {shlex.quote(frames)}"
