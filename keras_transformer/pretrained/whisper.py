"""Whisper: speech recognition with log-mel features, two convolutions, and BART's layers."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from keras_transformer.errors import InputError
from keras_transformer.pretrained.bart import _Bart, _MBart
from keras_transformer.pretrained.directory import _Directory, _typed
from keras_transformer.pretrained.family import _option
from keras_transformer.pretrained.languages import _spoken_code
from keras_transformer.pretrained.log_mel import _RATE, _LogMel
from keras_transformer.pretrained.tokenizer_files import _added_tokens
from keras_transformer.pretrained.tokenizers import _byte_pairs, _language, _refuse_language, _vocabulary
from keras_transformer.text import BytePairTokenizer, Tokenizer
from keras_transformer.types import Config

# Settings of training, classification, timestamps, and audio longer than the input.
_UNUSED = (
    "alignment_heads apply_spec_augment classifier_proj_size mask_feature_length mask_feature_min_masks "
    "mask_feature_prob mask_time_length mask_time_min_masks mask_time_prob max_initial_timestamp_index "
    "median_filter_width prev_sot_token_id"
)
# Settings of the output prefix, which the tokenizer handles.
_PREFIX = "forced_decoder_ids is_multilingual lang_to_id language no_timestamps_token_id task task_to_id"
_END, _TASKS, _NO_TIMES = "<|endoftext|>", ("<|translate|>", "<|transcribe|>"), "<|notimestamps|>"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Whisper(_Bart):
    """Whisper: pre-norm, two lengths of learned positions, no key bias; encoder sinusoids are stored."""

    vocab_size: int = 51865
    d_model: int = 384
    num_mel_bins: int = _option(80, "encoder_feature_dim")
    encoder_layers: int = 4
    encoder_ffn_dim: int = 1536
    encoder_attention_heads: int = 6
    decoder_layers: int = 4
    decoder_ffn_dim: int = 1536
    decoder_attention_heads: int = 6
    max_position_embeddings: int = _option(0)  # replaced by the two below
    max_source_positions: int = _option(1500, "max_source_positions")
    max_target_positions: int = _option(448, "max_length")
    dropout: float = 0.0
    pad_token_id: int = 50256
    eos_token_id: int = 50256
    decoder_start_token_id: int | None = 50257

    architectures: ClassVar[tuple[str, ...]] = ("WhisperForConditionalGeneration", "WhisperModel")
    tokenizer_class: ClassVar[str] = "WhisperTokenizer"
    fixed: ClassVar[Config] = {
        **_MBart.fixed,
        "normalize_embeddings": False,
        "source_convolutions": True,
    }
    begins_with_language: ClassVar[bool] = True
    ignored: ClassVar[frozenset[str]] = frozenset([*_UNUSED.split(), *_PREFIX.split()])
    zeros: ClassVar[tuple[str, ...]] = ("k_proj.bias",)
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "target": ("model.decoder.embed_tokens.weight",),
        "output": ("proj_out.weight", "model.decoder.embed_tokens.weight"),
    }

    def always(self) -> Config:
        return {**super().always(), "scale_embedding": False, "use_weighted_layer_sum": False}

    def sizes(self) -> Iterator[tuple[str, int, str, int, int]]:
        yield from super().sizes()
        yield "num_mel_bins", self.num_mel_bins, "model.encoder.conv1.weight", 1, 0

    def stack_names(self, stack: str) -> dict[str, str]:
        convolutions = {
            "source_projection.first": "model.encoder.conv1",
            "source_projection.second": "model.encoder.conv2",
        }
        return {**super().stack_names(stack), **(convolutions if stack == "encoder" else {})}

    def positions(self, stack: str) -> tuple[str, Any, int]:
        return f"model.{stack}.embed_positions.weight", None, 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Speech:
    """Settings of the output prefix in `generation_config.json`."""

    language: str | None = None
    task: str | None = None
    forced_decoder_ids: tuple[tuple[int, int | None], ...] = ()
    is_multilingual: bool | None = None
    lang_to_id: dict[str, int] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _FeatureSettings:
    """Settings of the feature extraction. All except `_SIZES` must have these values."""

    sampling_rate: int = _RATE
    hop_length: int = 160
    n_fft: int = 400
    dither: float = 0.0
    padding_value: float = 0.0
    chunk_length: int = 30
    feature_size: int = 80


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Frames:
    """Shape of the frames that the model reads."""

    max_source_positions: int = 1500
    num_mel_bins: int = 80


_SIZES = ("chunk_length", "feature_size")
_MAX_MELS = 201  # number of frequencies in a window


def _read_whisper(files: _Directory, source: str | None, target: str | None) -> tuple[Tokenizer, Tokenizer]:
    """Read the feature settings and the tokenizer."""
    pieces, byte_pairs = _byte_pairs(files)
    # Timestamp tokens are not text.
    added = [token.content for token in _added_tokens(files)]
    vocabulary = _vocabulary(files, pieces, added, special=((), (), (), (_END,)))
    vocabulary["split_tokens"] = ()
    prefix = _prefix(files, vocabulary["pieces"], source, target)
    spec = BytePairTokenizer.Spec(**vocabulary, **byte_pairs, prefix=prefix)
    return _features(files), BytePairTokenizer(spec)


def _prefix(
    files: _Directory, pieces: tuple[str, ...], source: str | None, target: str | None
) -> tuple[str, ...]:
    """Return the tokens that every output starts with: language, task, no timestamps."""
    path = files.path / "generation_config.json"
    tokens = ["<|startoftranscript|>", *_TASKS, _NO_TIMES]
    if missing := [token for token in tokens if token not in pieces]:
        raise InputError(f"{files.path}: the vocabulary must have {tokens}. Received: none of {missing}.")
    first, end = (pieces.index(token) for token in tokens[:2])
    languages = {piece[2:-2]: piece for piece in pieces[first + 1 : end]}
    table = _typed({**files.config, **files.table(path.name, optional=True)}, path, _Speech)
    language, task = table.language, table.task
    numbers = [each[1] for each in table.forced_decoder_ids if each[1] is not None]
    if not all(0 <= number < len(pieces) for number in numbers):
        wanted = f"`forced_decoder_ids` must be below {len(pieces)}"
        raise InputError(f"{path}: {wanted}. Received: {numbers}.")
    forced = [pieces[number] for number in numbers]
    if language is None and task is None:  # the older way to set both
        language = next((piece for piece in forced if piece in languages.values()), None)
        task = next((piece[2:-2] for piece in forced if piece in _TASKS), None)
    is_multilingual = table.is_multilingual
    if is_multilingual is None:
        is_multilingual = bool(source or language or table.lang_to_id)
    if not is_multilingual:
        _refuse_language(files, source, target)
        return (_NO_TIMES,)
    source, target, language = map(_spoken_code, (source, target, language))
    spoken = _language(files, "source_language", source or language, languages)
    if task not in (None, "transcribe", "translate"):
        raise InputError(f"{path}: `task` must be transcribe or translate. Received: {task!r:.80}.")
    if target is not None:
        _language(files, "target_language", target, {"en", spoken})
        task = "transcribe" if target == spoken else "translate"
    return languages[spoken], f"<|{task or 'transcribe'}|>", _NO_TIMES


def _features(files: _Directory) -> _LogMel:
    name = "preprocessor_config.json"
    table = files.table(name, optional=True)
    if not table:
        name = "processor_config.json"
        table = files.table(name, optional=True).get("feature_extractor", {})
    path = files.path / name
    if not isinstance(table, dict):
        raise InputError(f"{path}: `feature_extractor` must be an object. Received: {table!r:.80}.")
    settings = _typed(table, path, _FeatureSettings)
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if field.name not in _SIZES and value != field.default:
            raise InputError(f"{path}: {field.name} must be {field.default}. Received: {value!r}.")
    model = files.read("config.json", _Frames)
    seconds, num_mels = settings.chunk_length, settings.feature_size
    if (seconds * 50, num_mels) != (model.max_source_positions, model.num_mel_bins) or num_mels > _MAX_MELS:
        frames = f"{model.max_source_positions * 2} frames of {model.num_mel_bins} mels"
        received = f"chunk_length={seconds}, feature_size={num_mels}"
        message = f"the features must be {frames}, as the model reads them"
        raise InputError(f"{path}: {message}. Received: {received}.")
    return _LogMel(num_mels=num_mels, seconds=seconds)
