"""Whisper: BART's layers behind two convolutions of log-mel frames, and audio in place of a text."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from keras_transformer.errors import InputError
from keras_transformer.pretrained.bart import _Bart, _MBart
from keras_transformer.pretrained.directory import _Directory
from keras_transformer.pretrained.family import _option
from keras_transformer.pretrained.log_mel import _RATE, _LogMel
from keras_transformer.pretrained.tokenizers import (
    _added_tokens,
    _byte_pairs,
    _language,
    _refuse_language,
    _vocabulary,
)
from keras_transformer.text import BytePairTokenizer, Tokenizer
from keras_transformer.types import Config

# Of training, of the model with classes, of timestamps and of audio that is longer than the model reads.
_UNUSED = (
    "alignment_heads apply_spec_augment classifier_proj_size mask_feature_length mask_feature_min_masks "
    "mask_feature_prob mask_time_length mask_time_min_masks mask_time_prob max_initial_timestamp_index "
    "median_filter_width prev_sot_token_id"
)
# The prefix of every output, which its tokenizer has.
_PREFIX = "forced_decoder_ids is_multilingual lang_to_id language no_timestamps_token_id task task_to_id"
_END, _TASKS, _NO_TIMES = "<|endoftext|>", ("<|translate|>", "<|transcribe|>"), "<|notimestamps|>"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Whisper(_Bart):
    """Pre-norm, learned positions of two lengths, keys without a bias; the encoder's sinusoids are stored."""

    vocab_size: int = 51865
    d_model: int = 384
    num_mel_bins: int = _option(80, "encoder_feature_dim")
    encoder_layers: int = 4
    encoder_ffn_dim: int = 1536
    encoder_attention_heads: int = 6
    decoder_layers: int = 4
    decoder_ffn_dim: int = 1536
    decoder_attention_heads: int = 6
    max_position_embeddings: int = _option(0)  # two others take its place
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

    def stack_names(self, stack: str) -> dict[str, str]:
        convolutions = {
            "source_projection.first": "model.encoder.conv1",
            "source_projection.second": "model.encoder.conv2",
        }
        return {**super().stack_names(stack), **(convolutions if stack == "encoder" else {})}

    def positions(self, stack: str) -> tuple[str, Any, int]:
        return f"model.{stack}.embed_positions.weight", None, 0


def _read_whisper(files: _Directory, source: str | None, target: str | None) -> tuple[Tokenizer, Tokenizer]:
    """Read the settings of the features, and the tokenizer."""
    pieces, byte_pairs = _byte_pairs(files)
    added = {number: token for number, token, _ in _added_tokens(files)}
    if (files.path / "tokenizer.json").exists():
        found = files.table("tokenizer.json").get("added_tokens", ())
        added |= {token["id"]: token["content"] for token in found}
    added |= {number: token for token, number in files.table("added_tokens.json", optional=True).items()}
    vocabulary = _vocabulary(
        files,
        pieces,
        [*added.values()],  # times are no text either
        special=((), (), (), (_END,)),
        added=[(number, token, True) for number, token in sorted(added.items())],
    )
    prefix = _prefix(files, vocabulary["pieces"], source, target)
    spec = BytePairTokenizer.Spec(**vocabulary, **byte_pairs, prefix=prefix)
    return _features(files), BytePairTokenizer(spec)


def _prefix(
    files: _Directory, pieces: tuple[str, ...], source: str | None, target: str | None
) -> tuple[str, ...]:
    """Return what every output begins with: language, task, and that there are no times."""
    wanted = ["<|startoftranscript|>", *_TASKS, _NO_TIMES]
    if missing := [token for token in wanted if token not in pieces]:
        raise InputError(f"{files.path}: the vocabulary must have {wanted}. Received: none of {missing}.")
    first, end = (pieces.index(token) for token in wanted[:2])
    languages = {piece[2:-2]: piece for piece in pieces[first + 1 : end]}
    table = {**files.config, **files.table("generation_config.json", optional=True)}
    language, task = table.get("language"), table.get("task")
    forced = [pieces[each[1]] for each in table.get("forced_decoder_ids") or () if each[1] is not None]
    if language is None and task is None:  # older names for the same
        language = next((piece for piece in forced if piece in languages.values()), None)
        task = next((piece[2:-2] for piece in forced if piece in _TASKS), None)
    if not table.get("is_multilingual", bool(source or language or table.get("lang_to_id"))):
        _refuse_language(files, source, target)
        return (_NO_TIMES,)
    language = language.strip("<|>") if isinstance(language, str) else language
    spoken = _language(files, "source_language", source or language, languages)
    if target is not None:
        _language(files, "target_language", target, {"en", spoken})
        task = "transcribe" if target == spoken else "translate"
    return languages[spoken], f"<|{task or 'transcribe'}|>", _NO_TIMES


def _features(files: _Directory) -> _LogMel:
    table = files.table("preprocessor_config.json", optional=True)
    table = table or files.table("processor_config.json", optional=True).get("feature_extractor", {})
    wanted = {"sampling_rate": _RATE, "hop_length": 160, "n_fft": 400, "dither": 0.0, "padding_value": 0.0}
    for name, value in wanted.items():
        if table.get(name, value) != value:
            raise InputError(f"{files.path}: {name} must be {value}. Received: {table[name]!r}.")
    frames = files.config.get("max_source_positions", 1500), files.config.get("num_mel_bins", 80)
    seconds, num_mels = table.get("chunk_length", 30), table.get("feature_size", 80)
    if (seconds * 50, num_mels) != frames:
        message = f"the features must be {frames[0] * 2} frames of {frames[1]} mels, as the model reads them"
        received = f"chunk_length={seconds}, feature_size={num_mels}"
        raise InputError(f"{files.path}: {message}. Received: {received}.")
    return _LogMel(num_mels=num_mels, seconds=seconds)
