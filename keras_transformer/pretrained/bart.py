"""BART, and the families that differ from it in a few options."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from keras import ops

from keras_transformer.layers import sinusoidal_position_encoding
from keras_transformer.pretrained.family import (
    _activation,
    _attention,
    _Family,
    _same,
    _Scales,
    _tables,
    _their_activation,
)
from keras_transformer.types import Config, Tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Bart(_Family):
    """Post-norm, normalized embeddings, a table of learned positions for each stack."""

    vocab_size: int = 50265
    d_model: int = 1024
    encoder_layers: int = 12
    encoder_ffn_dim: int = 4096
    encoder_attention_heads: int = 16
    decoder_layers: int = 12
    decoder_ffn_dim: int = 4096
    decoder_attention_heads: int = 16
    max_position_embeddings: int = 1024
    activation_function: str = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    scale_embedding: bool = False
    pad_token_id: int = 1
    eos_token_id: int = 2
    decoder_start_token_id: int | None = 2

    architectures: ClassVar[tuple[str, ...]] = ("BartForConditionalGeneration", "BartModel")
    norm_first: ClassVar[bool] = False
    normalize_embeddings: ClassVar[bool] = True
    is_static: ClassVar[bool] = False
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = _tables("model.")

    def scales(self) -> _Scales:
        return _Scales(embeddings=self.d_model**0.5 if self.scale_embedding else 1.0)

    def options(self) -> Config:
        _same(
            num_heads=(self.encoder_attention_heads, self.decoder_attention_heads),
            intermediate_dim=(self.encoder_ffn_dim, self.decoder_ffn_dim),
        )
        return {
            "num_encoder_layers": self.encoder_layers,
            "num_decoder_layers": self.decoder_layers,
            "hidden_dim": self.d_model,
            "num_heads": self.encoder_attention_heads,
            "intermediate_dim": self.encoder_ffn_dim,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "intermediate_dropout": self.activation_dropout,
            "activation": _activation(self.activation_function),
            "norm_first": self.norm_first,
            "normalize_embeddings": self.normalize_embeddings,
            "layer_norm_epsilon": 1e-5,
            **self._position_options(),
        }

    @classmethod
    def fields(cls, options: Config) -> Config:
        return {
            "d_model": options["hidden_dim"],
            "encoder_layers": options["num_encoder_layers"],
            "decoder_layers": options["num_decoder_layers"],
            **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), options["num_heads"]),
            **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), options["intermediate_dim"]),
            "max_position_embeddings": options["max_length"],
            "activation_function": _their_activation(options["activation"]),
            "dropout": options["dropout"],
            "attention_dropout": options["attention_dropout"],
            "activation_dropout": options["intermediate_dropout"],
            "scale_embedding": options["scale_embeddings"],
        }

    def always(self) -> Config:
        return {
            "normalize_before": self.norm_first,
            "add_final_layer_norm": self.norm_first,
            "normalize_embedding": self.normalize_embeddings,
            "static_position_embeddings": self.is_static,
            "add_bias_logits": False,
        }

    def _position_options(self) -> Config:
        learned = {"positions": "learned", "max_length": self.max_length, "share_positions": False}
        return {"positions": "sinusoidal_concatenated"} if self.is_static else learned

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
        if self.is_static:
            values = ops.convert_to_numpy(sinusoidal_position_encoding(*sizes, layout="concatenated"))
        return f"model.{stack}.embed_positions.weight", values, 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class _PLBart(_Bart):
    """BART of programs, with other sizes; decoding starts from a language."""

    vocab_size: int = 50005
    d_model: int = 768
    encoder_layers: int = 6
    encoder_ffn_dim: int = 3072
    encoder_attention_heads: int = 12
    decoder_layers: int = 6
    decoder_ffn_dim: int = 3072
    decoder_attention_heads: int = 12
    attention_dropout: float = 0.1
    scale_embedding: bool = True
    decoder_start_token_id: int | None = None

    architectures: ClassVar[tuple[str, ...]] = ("PLBartForConditionalGeneration", "PLBartModel")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _MBart(_Bart):
    """BART with pre-norm."""

    decoder_start_token_id: int | None = None

    architectures: ClassVar[tuple[str, ...]] = ("MBartForConditionalGeneration", "MBartModel")
    norm_first: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Marian(_Bart):
    """Post-norm, sinusoids, a bias of the logits, vocabularies that may be two."""

    vocab_size: int = 58101
    decoder_vocab_size: int | None = None
    pad_token_id: int = 58100
    eos_token_id: int = 0
    decoder_start_token_id: int | None = 58100

    architectures: ClassVar[tuple[str, ...]] = ("MarianMTModel", "MarianModel")
    normalize_embeddings: ClassVar[bool] = False
    is_static: ClassVar[bool] = True

    def table_sizes(self) -> dict[str, int]:
        target = self.decoder_vocab_size or self.vocab_size
        return {**dict.fromkeys(self.tables, target), "source": self.vocab_size}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Pegasus(_Bart):
    """Pre-norm with sinusoids."""

    pad_token_id: int = 0
    eos_token_id: int = 1
    decoder_start_token_id: int | None = 0

    architectures: ClassVar[tuple[str, ...]] = ("PegasusForConditionalGeneration", "PegasusModel")
    norm_first: ClassVar[bool] = True
    normalize_embeddings: ClassVar[bool] = False
    is_static: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class _M2M100(_Bart):
    """Pre-norm; its sinusoids have other frequencies, and the first position after that of padding."""

    vocab_size: int = 128112
    activation_function: str = "relu"
    attention_dropout: float = 0.1
    scale_embedding: bool = True

    architectures: ClassVar[tuple[str, ...]] = ("M2M100ForConditionalGeneration", "M2M100Model")
    norm_first: ClassVar[bool] = True
    normalize_embeddings: ClassVar[bool] = False
    has_output_bias: ClassVar[bool] = False

    def _position_options(self) -> Config:
        return {"positions": "learned", "max_length": self.max_position_embeddings}

    def positions(self, stack: str) -> tuple[str, Tensor | None, int]:
        first = self.pad_token_id + 1
        waves = _fairseq_waves(self.max_position_embeddings + first, self.d_model)
        waves[self.pad_token_id] = 0
        return f"model.{stack}.embed_positions.weights", waves, first


def _fairseq_waves(length: int, width: int) -> npt.NDArray[np.float32]:
    """Return the sinusoids `(t, d)` of fairseq."""
    # In float32 from the start, as there: from position 1000 on a product in float64 differs by 1e-4.
    num_waves = width // 2
    rates = np.exp(np.arange(num_waves, dtype="float32") * -np.float32(np.log(10000) / (num_waves - 1)))
    angles = np.arange(length, dtype="float32")[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
