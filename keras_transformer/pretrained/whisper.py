"""Whisper: BART's layers behind two convolutions of log-mel frames, and audio in place of a text."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from keras_transformer.pretrained.bart import _Bart
from keras_transformer.types import Config

# Of training, of the model with classes, of timestamps and of audio that is longer than the model reads.
_UNUSED = (
    "alignment_heads apply_spec_augment classifier_proj_size mask_feature_length mask_feature_min_masks "
    "mask_feature_prob mask_time_length mask_time_min_masks mask_time_prob max_initial_timestamp_index "
    "median_filter_width prev_sot_token_id"
)
# The prefix of every output, which its tokenizer has.
_PREFIX = "forced_decoder_ids is_multilingual lang_to_id language no_timestamps_token_id task task_to_id"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Whisper(_Bart):
    """Pre-norm, learned positions of two lengths, keys without a bias; the encoder's sinusoids are stored."""

    vocab_size: int = 51865
    d_model: int = 384
    num_mel_bins: int = 80
    encoder_layers: int = 4
    encoder_ffn_dim: int = 1536
    encoder_attention_heads: int = 6
    decoder_layers: int = 4
    decoder_ffn_dim: int = 1536
    decoder_attention_heads: int = 6
    max_source_positions: int = 1500
    max_target_positions: int = 448
    dropout: float = 0.0
    pad_token_id: int = 50256
    eos_token_id: int = 50256
    decoder_start_token_id: int | None = 50257

    architectures: ClassVar[tuple[str, ...]] = ("WhisperForConditionalGeneration", "WhisperModel")
    norm_first: ClassVar[bool] = True
    normalize_embeddings: ClassVar[bool] = False
    ignored: ClassVar[frozenset[str]] = frozenset([*_UNUSED.split(), *_PREFIX.split()])
    zeros: ClassVar[tuple[str, ...]] = ("k_proj.bias",)
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "target": ("model.decoder.embed_tokens.weight",),
        "output": ("proj_out.weight", "model.decoder.embed_tokens.weight"),
    }

    @property
    def max_length(self) -> int | None:
        return self.max_target_positions

    def always(self) -> Config:
        return {**super().always(), "scale_embedding": False, "use_weighted_layer_sum": False}

    def options(self) -> Config:
        return {
            **super().options(),
            "encoder_feature_dim": self.num_mel_bins,
            "source_convolutions": True,
            "max_source_positions": self.max_source_positions,
        }

    def stack_names(self, stack: str) -> dict[str, str]:
        convolutions = {
            "source_projection.first": "model.encoder.conv1",
            "source_projection.second": "model.encoder.conv2",
        }
        return {**super().stack_names(stack), **(convolutions if stack == "encoder" else {})}

    def positions(self, stack: str) -> tuple[str, None, int]:
        return f"model.{stack}.embed_positions.weight", None, 0
