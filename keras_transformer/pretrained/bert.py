"""BERT family: BERT, RoBERTa, DistilBERT."""

import dataclasses
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from keras_transformer.pretrained.family import _attention, _Family, _option
from keras_transformer.types import Config, Tensor

# Settings of training, and of the pooler, which never varies.
_UNUSED = (
    "directionality initializer_range num_labels pooler_fc_size pooler_num_attention_heads "
    "pooler_num_fc_layers pooler_size_per_head pooler_type problem_type"
)


class _Head(NamedTuple):
    """Head of an architecture: the layers after the encoder."""

    options: Mapping[str, Any] = MappingProxyType({})
    """Options of `EncoderModel`."""
    names: Mapping[str, str] = MappingProxyType({})
    """Tensor names by the part of the model."""
    biases: tuple[str, ...] = ()
    """Names of the bias of tied logits; the first that the checkpoint contains is used."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _EncoderFamily(_Family):
    """Base class: post-norm, normalized embeddings, learned positions, and a head by architecture."""

    max_position_embeddings: int = _option(512, "max_length")

    stacks: ClassVar[tuple[str, ...]] = ("encoder",)
    fixed: ClassVar[Config] = {"norm_first": False, "normalize_embeddings": True, "positions": "learned"}

    def always(self) -> Config:
        return {"position_embedding_type": "absolute", "add_cross_attention": False}

    def stack_names(self, stack: str) -> dict[str, str]:
        return {"source_normalization": f"{self.prefix}embeddings.LayerNorm"}

    def positions(self, stack: str) -> tuple[str, Tensor | None, int]:
        return f"{self.prefix}embeddings.position_embeddings.weight", None, 0

    def head(self, architecture: str) -> _Head:
        """Return the head of an architecture."""
        if architecture.endswith("ForSequenceClassification"):
            return self.classes()
        if architecture.endswith("ForTokenClassification"):
            return _Head(names={"output_projection": "classifier"})
        return self.hidden_tokens() if "For" in architecture else _Head()

    def classes(self) -> _Head:
        """Return the classification head."""
        raise NotImplementedError

    def hidden_tokens(self) -> _Head:
        """Return the masked token head."""
        raise NotImplementedError

    def _masked_token_head(self, dense: str, normalization: str, *biases: str) -> _Head:
        options = {
            "head_activation": self.options()["activation"],
            "head_norm": True,
            "num_outputs": self.vocab_size,
            "tie_output": True,
            "output_bias": True,
        }
        return _Head(options, {"head": dense, "head_end": normalization}, biases)


def _architectures(name: str, *others: str) -> tuple[str, ...]:
    """Return the architectures of a family; the first is the default."""
    tasks = ("MaskedLM", *others, "SequenceClassification", "TokenClassification")
    return f"{name}Model", *(f"{name}For{task}" for task in tasks)


def _token_tables(prefix: str, output: str) -> dict[str, tuple[str, ...]]:
    name = f"{prefix}embeddings.word_embeddings.weight"
    return {"source": (name,), "output": (output, name)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Bert(_EncoderFamily):
    """BERT: token, position and type embeddings. A single text has type 0."""

    vocab_size: int = 30522
    hidden_size: int = _option(768, "hidden_dim")
    num_hidden_layers: int = _option(12, "num_encoder_layers")
    num_attention_heads: int = _option(12, "num_heads")
    intermediate_size: int = _option(3072, "intermediate_dim")
    hidden_act: str = _option("gelu", "activation")
    hidden_dropout_prob: float = _option(0.1, "dropout")
    attention_probs_dropout_prob: float = _option(0.1, "attention_dropout")
    layer_norm_eps: float = _option(1e-12, "layer_norm_epsilon")
    type_vocab_size: int = 2
    pad_token_id: int = 0

    architectures: ClassVar[tuple[str, ...]] = _architectures("Bert", "PreTraining")
    tokenizer_class: ClassVar[str] = "BertTokenizer"
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = _token_tables("bert.", "cls.predictions.decoder.weight")
    ignored: ClassVar[frozenset[str]] = frozenset(_UNUSED.split())
    prefix: ClassVar[str] = "bert."

    def added(self) -> dict[str, tuple[int, int]]:
        return {
            f"{self.prefix}embeddings.token_type_embeddings.weight": (self.type_vocab_size, self.hidden_size)
        }

    def sizes(self) -> Iterator[tuple[str, int, str, int, int]]:
        yield from super().sizes()
        for name in self.added():
            yield "type_vocab_size", self.type_vocab_size, name, 0, 0

    def layer_names(self, stack: str) -> dict[str, str]:
        layer = f"{self.prefix}encoder.layer.{{i}}"
        return {
            **_attention("self_attention", f"{layer}.attention.self", "query key value output"),
            "self_attention.output_dense": f"{layer}.attention.output.dense",
            "self_attention_residual.norm": f"{layer}.attention.output.LayerNorm",
            "feed_forward.inner": f"{layer}.intermediate.dense",
            "feed_forward.outer": f"{layer}.output.dense",
            "feed_forward_residual.norm": f"{layer}.output.LayerNorm",
        }

    def classes(self) -> _Head:
        names = {"head": f"{self.prefix}pooler.dense", "output_projection": "classifier"}
        return _Head({"pooling": "first", "head_activation": "tanh"}, names)

    def hidden_tokens(self) -> _Head:
        last = "cls.predictions"
        dense, normalization = f"{last}.transform.dense", f"{last}.transform.LayerNorm"
        return self._masked_token_head(dense, normalization, f"{last}.bias", f"{last}.decoder.bias")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Roberta(_Bert):
    """RoBERTa: BERT whose positions start after the padding id."""

    vocab_size: int = 50265
    pad_token_id: int = 1

    architectures: ClassVar[tuple[str, ...]] = _architectures("Roberta")
    tokenizer_class: ClassVar[str] = "RobertaTokenizer"
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = _token_tables("roberta.", "lm_head.decoder.weight")
    prefix: ClassVar[str] = "roberta."

    def options(self) -> Config:
        return {**super().options(), "max_length": self.max_length}

    @property
    def max_length(self) -> int:
        return self.max_position_embeddings - self.pad_token_id - 1

    def positions(self, stack: str) -> tuple[str, Tensor | None, int]:
        return *super().positions(stack)[:2], self.pad_token_id + 1

    def classes(self) -> _Head:
        names = {"head": "classifier.dense", "output_projection": "classifier.out_proj"}
        return _Head({"pooling": "first", "head_activation": "tanh"}, names)

    def hidden_tokens(self) -> _Head:
        return self._masked_token_head(
            "lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder.bias"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _DistilBert(_EncoderFamily):
    """DistilBERT: BERT without token types, and with other names."""

    vocab_size: int = 30522
    dim: int = _option(768, "hidden_dim")
    n_layers: int = _option(6, "num_encoder_layers")
    n_heads: int = _option(12, "num_heads")
    hidden_dim: int = _option(3072, "intermediate_dim")
    activation: str = _option("gelu", "activation")
    dropout: float = _option(0.1, "dropout")
    attention_dropout: float = _option(0.1, "attention_dropout")
    pad_token_id: int = 0

    architectures: ClassVar[tuple[str, ...]] = _architectures("DistilBert")
    tokenizer_class: ClassVar[str] = "DistilBertTokenizer"
    fixed: ClassVar[Config] = {**_EncoderFamily.fixed, "layer_norm_epsilon": 1e-12}
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = _token_tables("distilbert.", "vocab_projector.weight")
    ignored: ClassVar[frozenset[str]] = frozenset(
        [*_UNUSED.split(), "qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds", "tie_weights_"]
    )
    prefix: ClassVar[str] = "distilbert."

    def layer_names(self, stack: str) -> dict[str, str]:
        layer = f"{self.prefix}transformer.layer.{{i}}"
        return {
            **_attention("self_attention", f"{layer}.attention", "q_lin k_lin v_lin out_lin"),
            "self_attention_residual.norm": f"{layer}.sa_layer_norm",
            "feed_forward.inner": f"{layer}.ffn.lin1",
            "feed_forward.outer": f"{layer}.ffn.lin2",
            "feed_forward_residual.norm": f"{layer}.output_layer_norm",
        }

    def classes(self) -> _Head:
        names = {"head": "pre_classifier", "output_projection": "classifier"}
        return _Head({"pooling": "first", "head_activation": "relu"}, names)

    def hidden_tokens(self) -> _Head:
        return self._masked_token_head("vocab_transform", "vocab_layer_norm", "vocab_projector.bias")
