"""BART family: BART, mBART, Marian, Pegasus, M2M100 (NLLB)."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from keras import ops

from keras_transformer.layers import sinusoidal_position_encoding
from keras_transformer.pretrained.family import _attention, _EncoderDecoder, _option, _Scales, _tables
from keras_transformer.types import Config, Tensor

_LEARNED = {"positions": "learned", "share_positions": False}
_SINUSOIDS = {"positions": "sinusoidal_concatenated"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Bart(_EncoderDecoder):
    """BART: post-norm, normalized embeddings, learned positions for each stack."""

    vocab_size: int = 50265
    d_model: int = _option(1024, "hidden_dim")
    encoder_layers: int = _option(12, "num_encoder_layers")
    encoder_ffn_dim: int = _option(4096, "intermediate_dim")
    encoder_attention_heads: int = _option(16, "num_heads")
    decoder_layers: int = _option(12, "num_decoder_layers")
    decoder_ffn_dim: int = _option(4096, "intermediate_dim")
    decoder_attention_heads: int = _option(16, "num_heads")
    max_position_embeddings: int = _option(1024, "max_length")
    activation_function: str = _option("gelu", "activation")
    dropout: float = _option(0.1, "dropout")
    attention_dropout: float = _option(0.0, "attention_dropout")
    activation_dropout: float = _option(0.0, "intermediate_dropout")
    scale_embedding: bool = _option(False, "scale_embeddings")
    pad_token_id: int = 1
    eos_token_id: int = 2
    decoder_start_token_id: int | None = 2

    architectures: ClassVar[tuple[str, ...]] = ("BartForConditionalGeneration", "BartModel")
    tokenizer_class: ClassVar[str] = "BartTokenizer"
    fixed: ClassVar[Config] = {
        "norm_first": False,
        "normalize_embeddings": True,
        "layer_norm_epsilon": 1e-5,
        **_LEARNED,
    }
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = _tables("model.")

    def always(self) -> Config:
        return {
            "normalize_before": self.fixed["norm_first"],
            "add_final_layer_norm": self.fixed["norm_first"],
            "normalize_embedding": self.fixed["normalize_embeddings"],
            "static_position_embeddings": self._has_sinusoids,
            "add_bias_logits": False,
        }

    @property
    def _has_sinusoids(self) -> bool:
        return self.fixed["positions"] != "learned"

    def options(self) -> Config:
        return {**super().options(), **({"max_length": None} if self._has_sinusoids else {})}

    def scales(self) -> _Scales:
        return _Scales(embeddings=self.d_model**0.5 if self.scale_embedding else 1.0)

    def layer_names(self, stack: str) -> dict[str, str]:
        layer, projections = f"model.{stack}.layers.{{i}}", "q_proj k_proj v_proj out_proj"
        return {
            **_attention("self_attention", f"{layer}.self_attn", projections),
            "self_attention_residual.norm": f"{layer}.self_attn_layer_norm",
            **_attention("cross_attention", f"{layer}.encoder_attn", projections),
            "cross_attention_residual.norm": f"{layer}.encoder_attn_layer_norm",
            "feed_forward.inner": f"{layer}.fc1",
            "feed_forward.outer": f"{layer}.fc2",
            "feed_forward_residual.norm": f"{layer}.final_layer_norm",
        }

    def stack_names(self, stack: str) -> dict[str, str]:
        side = "source" if stack == "encoder" else "target"
        return {
            f"{stack}.final_normalization": f"model.{stack}.layer_norm",
            f"{side}_normalization": f"model.{stack}.layernorm_embedding",
        }

    def positions(self, stack: str) -> tuple[str, Tensor | None, int]:
        sizes, values = (self.max_position_embeddings, self.d_model), None
        if self._has_sinusoids:
            values = ops.convert_to_numpy(sinusoidal_position_encoding(*sizes, layout="concatenated"))
        return f"model.{stack}.embed_positions.weight", values, 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class _MBart(_Bart):
    """mBART: BART with pre-norm. Decoding starts from a language token."""

    decoder_start_token_id: int | None = None

    architectures: ClassVar[tuple[str, ...]] = ("MBartForConditionalGeneration", "MBartModel")
    tokenizer_class: ClassVar[str] = "MBartTokenizer"
    fixed: ClassVar[Config] = {**_Bart.fixed, "norm_first": True}
    begins_with_language: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Marian(_Bart):
    """Marian: post-norm, sinusoidal positions, logit bias, one or two vocabularies."""

    vocab_size: int = 58101
    decoder_vocab_size: int | None = None
    share_encoder_decoder_embeddings: bool = True
    pad_token_id: int = 58100
    eos_token_id: int = 0
    decoder_start_token_id: int | None = 58100

    architectures: ClassVar[tuple[str, ...]] = ("MarianMTModel", "MarianModel")
    tokenizer_class: ClassVar[str] = "MarianTokenizer"
    fixed: ClassVar[Config] = {
        "norm_first": False,
        "normalize_embeddings": False,
        "layer_norm_epsilon": 1e-5,
        **_SINUSOIDS,
    }

    @property
    def has_one_table(self) -> bool:
        return self.share_encoder_decoder_embeddings

    def table_sizes(self) -> dict[str, int]:
        target = self.decoder_vocab_size or self.vocab_size
        return {**dict.fromkeys(self.tables, target), "source": self.vocab_size}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Pegasus(_Bart):
    """Pegasus: pre-norm, sinusoidal positions."""

    pad_token_id: int = 0
    eos_token_id: int = 1
    decoder_start_token_id: int | None = 0

    architectures: ClassVar[tuple[str, ...]] = ("PegasusForConditionalGeneration", "PegasusModel")
    tokenizer_class: ClassVar[str] = "PegasusTokenizer"
    fixed: ClassVar[Config] = {**_Marian.fixed, "norm_first": True}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _M2M100(_Bart):
    """M2M100 and NLLB: pre-norm, sinusoids with other frequencies, positions start after the padding id."""

    vocab_size: int = 128112
    activation_function: str = "relu"
    attention_dropout: float = 0.1
    scale_embedding: bool = True

    architectures: ClassVar[tuple[str, ...]] = ("M2M100ForConditionalGeneration", "M2M100Model")
    tokenizer_class: ClassVar[str] = "M2M100Tokenizer"
    fixed: ClassVar[Config] = {
        "norm_first": True,
        "normalize_embeddings": False,
        "layer_norm_epsilon": 1e-5,
        "positions": "learned",
    }
    has_output_bias: ClassVar[bool] = False
    begins_with_language: ClassVar[bool] = True

    def positions(self, stack: str) -> tuple[str, Tensor | None, int]:
        # Compute in float32 like fairseq: float64 products differ by 1e-4 from position 1000 on.
        first, num_waves = self.pad_token_id + 1, self.d_model // 2
        rates = np.exp(np.arange(num_waves, dtype="float32") * -np.float32(np.log(10000) / (num_waves - 1)))
        angles = np.arange(self.max_position_embeddings + first, dtype="float32")[:, None] * rates
        waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        waves[self.pad_token_id] = 0
        return f"model.{stack}.embed_positions.weights", waves, first
