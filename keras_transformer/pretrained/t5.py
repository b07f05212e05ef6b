"""T5 family: T5, T5 1.1, mT5, UMT5."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from keras_transformer.pretrained.family import (
    _activation,
    _attention,
    _EncoderDecoder,
    _option,
    _Scales,
    _tables,
    _their_activation,
)
from keras_transformer.types import Config


@dataclasses.dataclass(frozen=True, kw_only=True)
class _T5(_EncoderDecoder):
    """T5: pre-norm with RMS normalization, no biases, relative positions, unscaled attention."""

    vocab_size: int = 32128
    d_model: int = _option(512, "hidden_dim")
    d_kv: int = _option(64, "head_dim")
    d_ff: int = _option(2048, "intermediate_dim")
    num_layers: int = _option(6, "num_encoder_layers")
    num_decoder_layers: int | None = _option(None, "num_decoder_layers")
    num_heads: int = _option(8, "num_heads")
    dropout_rate: float = _option(0.1, "dropout", "attention_dropout", "intermediate_dropout")
    layer_norm_epsilon: float = _option(1e-6, "layer_norm_epsilon")
    feed_forward_proj: str = "relu"
    tie_word_embeddings: bool = True
    scale_decoder_outputs: bool | None = None
    pad_token_id: int = 0
    eos_token_id: int = 1
    decoder_start_token_id: int | None = 0

    architectures: ClassVar[tuple[str, ...]] = ("T5ForConditionalGeneration", "T5WithLMHeadModel", "T5Model")
    tokenizer_class: ClassVar[str] = "T5Tokenizer"
    fixed: ClassVar[Config] = {
        "use_bias": False,
        "norm_first": True,
        "normalization": "rms",
        "positions": "relative",
    }
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = _tables("")
    has_output_bias: ClassVar[bool] = False
    prefix: ClassVar[str] = ""
    # Relative position table of a layer: the whole stack shares that of its first layer.
    position_table: ClassVar[str] = "block.0.layer.0.SelfAttention.relative_attention_bias"

    @property
    def _is_gated(self) -> bool:
        return self.feed_forward_proj.startswith("gated-")

    @property
    def _activation(self) -> str:
        # In gated networks, "gelu" is the tanh approximation.
        name = self.feed_forward_proj.removeprefix("gated-")
        return "gelu_new" if self.feed_forward_proj == "gated-gelu" else name

    def always(self) -> Config:
        return {
            "relative_attention_num_buckets": 32,
            "relative_attention_max_distance": 128,
            "is_gated_act": self._is_gated,
            "dense_act_fn": self._activation,
        }

    def options(self) -> Config:
        return {
            **super().options(),
            "num_decoder_layers": self.num_decoder_layers or self.num_layers,
            "activation": _activation(self._activation, "feed_forward_proj"),
            "gated": self._is_gated,
        }

    @classmethod
    def fields(cls, options: Config) -> Config:
        gate, name = "gated-" if options["gated"] else "", _their_activation(options["activation"])
        return {
            **super().fields(options),
            "feed_forward_proj": gate + ("gelu" if gate and name == "gelu_new" else name),
            # True scales T5's logits. Our shared table includes that factor, which `scale_embeddings` undoes.
            "tie_word_embeddings": options["tie_output"] and options["scale_embeddings"],
        }

    def scales(self) -> _Scales:
        # T5 scales the logits and T5 1.1 does not. In older files, tied tables imply T5.
        is_scaled = self.scale_decoder_outputs
        is_scaled = self.tie_word_embeddings if is_scaled is None else is_scaled
        # Our attention divides scores by the square root of the head width; T5 does not.
        return _Scales(logits=self.d_model**-0.5 if is_scaled else 1.0, queries=self.d_kv**0.5)

    def layer_names(self, stack: str) -> dict[str, str]:
        layer, last = f"{stack}.block.{{i}}.layer", 1 if stack == "encoder" else 2
        return {
            **_attention("self_attention", f"{layer}.0.SelfAttention", "q k v o"),
            "self_attention.position_bias": f"{stack}.{self.position_table}",
            "self_attention_residual.norm": f"{layer}.0.layer_norm",
            **_attention("cross_attention", f"{layer}.1.EncDecAttention", "q k v o"),
            "cross_attention_residual.norm": f"{layer}.1.layer_norm",
            "feed_forward.inner": f"{layer}.{last}.DenseReluDense.{'wi_0' if self._is_gated else 'wi'}",
            "feed_forward.gate": f"{layer}.{last}.DenseReluDense.wi_1",
            "feed_forward.outer": f"{layer}.{last}.DenseReluDense.wo",
            "feed_forward_residual.norm": f"{layer}.{last}.layer_norm",
        }

    def stack_names(self, stack: str) -> dict[str, str]:
        return {f"{stack}.final_normalization": f"{stack}.final_layer_norm"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _MT5(_T5):
    """mT5: multilingual T5 1.1, whose logits are never scaled."""

    vocab_size: int = 250112
    d_ff: int = 1024
    num_layers: int = 8
    num_heads: int = 6
    feed_forward_proj: str = "gated-gelu"

    architectures: ClassVar[tuple[str, ...]] = ("MT5ForConditionalGeneration", "MT5Model")

    def scales(self) -> _Scales:
        return super().scales()._replace(logits=1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _UMT5(_T5):
    """UMT5: multilingual T5 1.1 with a relative position table in each layer."""

    vocab_size: int = 250112
    d_ff: int = 1024
    num_layers: int = 8
    num_heads: int = 6
    feed_forward_proj: str = "gated-gelu"

    architectures: ClassVar[tuple[str, ...]] = ("UMT5ForConditionalGeneration", "UMT5Model")
    position_table: ClassVar[str] = "block.{i}.layer.0.SelfAttention.relative_attention_bias"
