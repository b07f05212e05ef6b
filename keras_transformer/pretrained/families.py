"""Families of encoder-decoders: what a configuration means in ours, and the names of the tensors."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
from keras import ops

from keras_transformer.errors import InputError
from keras_transformer.layers import sinusoidal_position_encoding
from keras_transformer.types import Config, Tensor

# Names of theirs, apart from those that both have.
_ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "swish": "silu"}
_SAME_ACTIVATIONS = ("relu", "gelu", "silu")
# Names that all of them may have, and that change no number of a model in use: of other tasks, of training,
# and what each library writes down about itself.
_UNUSED = (
    "_name_or_path _num_labels architectures classif_dropout classifier_dropout decoder_layerdrop dtype "
    "encoder_layerdrop extra_pos_embeddings force_bos_token_to_be_generated gradient_checkpointing id2label "
    "init_std initializer_factor is_encoder_decoder label2id max_position_embeddings model_type n_positions "
    "num_hidden_layers output_past prefix save_step task_specific_params tie_word_embeddings tokenizer_class "
    "torch_dtype transformers_version use_cache share_encoder_decoder_embeddings sep_token_id"
)
_IGNORED = frozenset(_UNUSED.split())


class _Scales(NamedTuple):
    embeddings: float = 1.0
    logits: float = 1.0
    queries: float = 1.0


def _tables(prefix: str) -> dict[str, tuple[str, ...]]:
    names = [f"{prefix}{part}.weight" for part in ("encoder.embed_tokens", "decoder.embed_tokens", "shared")]
    return {"source": (names[0], names[2]), "target": (*names[1:],), "output": ("lm_head.weight", *names[1:])}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Family:
    """Fields of a `config.json` with the defaults of its library, which leaves out what equals them."""

    vocab_size: int
    d_model: int
    pad_token_id: int
    eos_token_id: int
    decoder_start_token_id: int | None

    architectures: ClassVar[tuple[str, ...]]
    tables: ClassVar[Mapping[str, tuple[str, ...]]]
    """Names of the tables of token vectors, of which a checkpoint has the first or the next."""

    @property
    def max_length(self) -> int | None:
        """Return the number of positions; None if there is no limit."""
        limit: int | None = getattr(self, "max_position_embeddings", None)
        return limit

    def scales(self) -> _Scales:
        """Return the factors of embeddings, logits and queries."""
        return _Scales()

    def table_sizes(self) -> dict[str, int]:
        """Return the rows of each of `tables`."""
        return dict.fromkeys(self.tables, self.vocab_size)

    def options(self) -> Config:
        """Return the options of our model, apart from vocabularies and tables."""
        raise NotImplementedError

    def always(self) -> Config:
        """Return further names with their only value: that of the family, or what follows from others."""
        raise NotImplementedError

    def layer_names(self, stack: str) -> dict[str, str]:
        """Return their names by the path of the part in a layer, `{i}`."""
        raise NotImplementedError

    def stack_names(self, stack: str) -> dict[str, str]:
        """Return their names by the path of the part in the model."""
        raise NotImplementedError

    def positions(self, stack: str) -> tuple[str, Tensor | None, int]:
        """Return the name of a table of positions, its values where they are known, and rows to leave out."""
        return "", None, 0


def _same(**pairs: tuple[object, object]) -> None:
    """Raise InputError for what encoder and decoder must have in common."""
    for name, (encoder, decoder) in pairs.items():
        if encoder != decoder:
            wanted = f"Encoder and decoder must have the same `{name}`"
            raise InputError(f"{wanted}. Received: {encoder} and {decoder}.")


def _activation(name: str) -> str:
    known = {**dict(zip(_SAME_ACTIVATIONS, _SAME_ACTIVATIONS, strict=True)), **_ACTIVATIONS}
    if name not in known:
        raise InputError(f"The activation must be one of {', '.join(known)}. Received: {name!r}.")
    return known[name]


def _attention(ours: str, theirs: str, names: str) -> dict[str, str]:
    parts = zip(("query", "key", "value", "output"), names.split(), strict=True)
    return {f"{ours}.{part}_dense": f"{theirs}.{name}" for part, name in parts}


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

    def _position_options(self) -> Config:
        return {"positions": "learned", "max_length": self.max_position_embeddings}

    def positions(self, stack: str) -> tuple[str, Tensor | None, int]:
        # In float32 from the start, as there: from position 1000 on a product in float64 differs by 1e-4.
        num_waves, first = self.d_model // 2, self.pad_token_id + 1
        rates = np.exp(np.arange(num_waves, dtype="float32") * -np.float32(np.log(10000) / (num_waves - 1)))
        angles = np.arange(self.max_position_embeddings + first, dtype="float32")[:, None] * rates
        waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        waves[self.pad_token_id] = 0
        return f"model.{stack}.embed_positions.weights", waves, first


@dataclasses.dataclass(frozen=True, kw_only=True)
class _T5(_Family):
    """Pre-norm of root mean squares, no biases, relative positions, scores without scaling."""

    vocab_size: int = 32128
    d_model: int = 512
    d_kv: int = 64
    d_ff: int = 2048
    num_layers: int = 6
    num_decoder_layers: int | None = None
    num_heads: int = 8
    dropout_rate: float = 0.1
    layer_norm_epsilon: float = 1e-6
    feed_forward_proj: str = "relu"
    tie_word_embeddings: bool = True
    scale_decoder_outputs: bool | None = None
    pad_token_id: int = 0
    eos_token_id: int = 1
    decoder_start_token_id: int | None = 0

    architectures: ClassVar[tuple[str, ...]] = ("T5ForConditionalGeneration", "T5WithLMHeadModel")
    # The layer whose table of relative positions a layer has: the first's is that of the whole stack.
    position_table: ClassVar[str] = "block.0.layer.0.SelfAttention.relative_attention_bias"
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = _tables("")

    def scales(self) -> _Scales:
        # Which of the two a model is, T5 or its version 1.1, followed from the tie in older files.
        is_scaled = self.scale_decoder_outputs
        is_scaled = self.tie_word_embeddings if is_scaled is None else is_scaled
        # Our attention divides its scores by the root of the width of a head, T5 does not.
        return _Scales(logits=self.d_model**-0.5 if is_scaled else 1.0, queries=self.d_kv**0.5)

    @property
    def is_gated(self) -> bool:
        return self.feed_forward_proj.startswith("gated-")

    @property
    def activation(self) -> str:
        # What Google calls GELU there is the approximation.
        name = self.feed_forward_proj.removeprefix("gated-")
        return "gelu_new" if self.feed_forward_proj == "gated-gelu" else name

    def always(self) -> Config:
        return {
            "relative_attention_num_buckets": 32,
            "relative_attention_max_distance": 128,
            "is_gated_act": self.is_gated,
            "dense_act_fn": self.activation,
        }

    def options(self) -> Config:
        return {
            "num_encoder_layers": self.num_layers,
            "num_decoder_layers": self.num_decoder_layers or self.num_layers,
            "hidden_dim": self.d_model,
            "num_heads": self.num_heads,
            "head_dim": self.d_kv,
            "intermediate_dim": self.d_ff,
            **dict.fromkeys(("dropout", "attention_dropout", "intermediate_dropout"), self.dropout_rate),
            "activation": _activation(self.activation),
            "gated": self.is_gated,
            "use_bias": False,
            "norm_first": True,
            "normalization": "rms",
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "positions": "relative",
        }

    def layer_names(self, stack: str) -> dict[str, str]:
        layer, last = f"{stack}.block.{{i}}.layer", 1 if stack == "encoder" else 2
        return {
            **_attention("self_attention", f"{layer}.0.SelfAttention", "q k v o"),
            "self_attention.position_bias": f"{stack}.{self.position_table}",
            "self_attention_residual.norm": f"{layer}.0.layer_norm",
            **_attention("cross_attention", f"{layer}.1.EncDecAttention", "q k v o"),
            "cross_attention_residual.norm": f"{layer}.1.layer_norm",
            "feed_forward.inner": f"{layer}.{last}.DenseReluDense.{'wi_0' if self.is_gated else 'wi'}",
            "feed_forward.gate": f"{layer}.{last}.DenseReluDense.wi_1",
            "feed_forward.outer": f"{layer}.{last}.DenseReluDense.wo",
            "feed_forward_residual.norm": f"{layer}.{last}.layer_norm",
        }

    def stack_names(self, stack: str) -> dict[str, str]:
        return {f"{stack}.final_normalization": f"{stack}.final_layer_norm"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _MT5(_T5):
    """T5 1.1 for many languages: its logits are never scaled."""

    vocab_size: int = 250112
    d_ff: int = 1024
    num_layers: int = 8
    num_heads: int = 6
    feed_forward_proj: str = "gated-gelu"

    architectures: ClassVar[tuple[str, ...]] = ("MT5ForConditionalGeneration",)

    def scales(self) -> _Scales:
        return super().scales()._replace(logits=1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _UMT5(_T5):
    """T5 1.1 for many languages, with a table of relative positions for each layer."""

    vocab_size: int = 250112
    d_ff: int = 1024
    num_layers: int = 8
    num_heads: int = 6
    feed_forward_proj: str = "gated-gelu"

    architectures: ClassVar[tuple[str, ...]] = ("UMT5ForConditionalGeneration",)
    position_table: ClassVar[str] = "block.{i}.layer.0.SelfAttention.relative_attention_bias"


_FAMILIES: dict[str, type[_Family]] = {
    "bart": _Bart,
    "m2m_100": _M2M100,
    "marian": _Marian,
    "mbart": _MBart,
    "mt5": _MT5,
    "pegasus": _Pegasus,
    "t5": _T5,  # and ByT5
    "umt5": _UMT5,
}
