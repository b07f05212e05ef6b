"""Model families: option names and tensor names of Hugging Face, for import and export."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Self

from keras_transformer.errors import InputError
from keras_transformer.pretrained.directory import _Directory, _left_out
from keras_transformer.pretrained.generation import _GENERATION_NAMES
from keras_transformer.types import Config, Tensor

# Hugging Face name to Keras name. Export uses the first match.
_ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "swish": "silu",
    "silu": "silu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}
# Common settings that do not change outputs: of other tasks, of training, and metadata. They are ignored
# without a log line.
_UNUSED = (
    "_name_or_path _num_labels architectures classif_dropout classifier_dropout decoder_layerdrop dtype "
    "encoder_layerdrop extra_pos_embeddings force_bos_token_to_be_generated gradient_checkpointing id2label "
    "init_std initializer_factor is_encoder_decoder label2id max_position_embeddings model_type n_positions "
    "num_hidden_layers output_past prefix save_step task_specific_params tie_word_embeddings tokenizer_class "
    "torch_dtype transformers_version use_cache share_encoder_decoder_embeddings sep_token_id"
)
_IGNORED = frozenset(_UNUSED.split())
# Settings that change outputs in every family, with their only supported value.
_ALWAYS: Config = {
    "is_decoder": False,
    "pruned_heads": {},
    "quantization_config": None,
}


class _Scales(NamedTuple):
    """Factors of embeddings, logits and queries by which a family differs from our layers."""

    embeddings: float = 1.0
    logits: float = 1.0
    queries: float = 1.0


def _option(default: Any, *ours: str) -> Any:
    """Return a field of `config.json` that sets our options `ours`; export uses the first of them."""
    return dataclasses.field(default=default, metadata={"ours": ours})


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Family:
    """Base class of families: fields of `config.json`, with the defaults of omitted fields."""

    vocab_size: int
    pad_token_id: int

    stacks: ClassVar[tuple[str, ...]]
    """Stacks of the model: `encoder`, `decoder`, or both."""
    architectures: ClassVar[tuple[str, ...]]
    tokenizer_class: ClassVar[str]
    """Tokenizer class if the directory names none, or only a generic one."""
    fixed: ClassVar[Config]
    """Our options that are constant in the family."""
    tables: ClassVar[Mapping[str, tuple[str, ...]]]
    """Names of the embedding tables by role; the first that the checkpoint contains is used."""
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Additional settings that do not change outputs, or that the tokenizer handles."""
    zeros: ClassVar[tuple[str, ...]] = ()
    """Name endings of tensors that are zeros if the checkpoint lacks them."""
    prefix: ClassVar[str] = "model."
    """Prefix of tensor names, unless the model was saved without its logits layer."""

    @property
    def last_side(self) -> str:
        """Side of the vocabulary that the logits cover."""
        return "target" if "decoder" in self.stacks else "source"

    @classmethod
    def read(cls, directory: _Directory) -> Self:
        """Read a configuration; raise InputError for another architecture or an unsupported setting."""
        config, path = directory.config, directory.path / "config.json"
        architectures = config.get("architectures") or [cls.architectures[0]]
        given = map(str, architectures) if isinstance(architectures, list) else ()
        if not {*given} & {*cls.architectures}:
            wanted = f"`architectures` must have {' or '.join(cls.architectures)}"
            raise InputError(f"{path}: {wanted}. Received: {architectures!r:.80}.")
        family = directory.read(path.name, cls)
        always = {**family.always(), **_ALWAYS, "is_encoder_decoder": "decoder" in cls.stacks}
        known = {field.name for field in dataclasses.fields(cls)} | always.keys() | cls.ignored
        known |= _IGNORED | _GENERATION_NAMES
        for name, value in config.items():
            if name in always and value not in (None, always[name]):
                kind = config.get("model_type") or cls.architectures[0]
                wanted = f"`{name}` must be {always[name]} in a {kind}"
                raise InputError(f"{path}: {wanted}. Received: {value!r:.80}.")
        # `transformers` ignores all other names.
        others = {name: config[name] for name in config.keys() - known if config[name] not in (None, False)}
        _left_out(path, (f"{name}={others[name]!r:.80}" for name in sorted(others)))
        return family

    def sizes(self) -> Iterator[tuple[str, int, str, int, int]]:
        """Yield setting, value, tensor, axis and extra rows: the size of the axis must be value + extra rows.

        All sizes are compared with the headers of the weights before a model is built.
        """
        options = self.options()
        for stack in self.stacks:
            inner, query = (
                f"{self.layer_names(stack)[part]}.weight".format(i=0)
                for part in ("feed_forward.inner", "self_attention.query_dense")
            )
            yield self._name("intermediate_dim", stack), options["intermediate_dim"], inner, 0, 0
            yield self._name("hidden_dim"), options["hidden_dim"], inner, 1, 0
            if "head_dim" in options:
                names = f"{self._name('num_heads')} * {self._name('head_dim')}"
                yield names, options["num_heads"] * options["head_dim"], query, 0, 0
            if options["positions"] != "learned":
                continue
            name, known, first = self.positions(stack)
            if known is None:
                of_source = stack == "encoder" and "max_source_positions" in options
                ours = "max_source_positions" if of_source else "max_length"
                value = getattr(self, self._name(ours))  # some families include the first rows in the number
                yield self._name(ours), value, name, 0, first + options[ours] - value

    def layers(self) -> Iterator[tuple[str, int, str]]:
        """Yield for each stack the setting of its depth, the depth, and a tensor name with `{i}`."""
        for stack in self.stacks:
            ours = f"num_{stack}_layers"
            tensor = f"{self.layer_names(stack)['feed_forward.inner']}.weight"
            yield self._name(ours), self.options()[ours], tensor

    def _name(self, ours: str, stack: str = "") -> str:
        """Return the Hugging Face name of our option, which may depend on the stack."""
        names = [name for name, all_of_ours in self.names().items() if ours in all_of_ours]
        return next((name for name in names if name.startswith(stack)), names[0])

    def always(self) -> Config:
        """Return more settings with their only supported value, fixed or implied by other settings."""
        raise NotImplementedError

    def options(self) -> Config:
        """Return our model options, without vocabularies and tables."""
        options, found = dict(self.fixed), dict[str, str]()
        for name, all_of_ours in self.names().items():
            for ours in all_of_ours:
                value = getattr(self, name)
                value = _activation(value, name) if ours == "activation" else value
                first = found.setdefault(ours, name)
                if options.setdefault(ours, value) != value:
                    wanted = f"Encoder and decoder must have the same `{ours}`"
                    raise InputError(f"{wanted}. Received: {first}={options[ours]} and {name}={value}.")
        return options

    @classmethod
    def fields(cls, options: Config) -> Config:
        """Return the fields closest to our model options; the inverse of `options`."""
        return {
            name: _their_activation(options[ours]) if ours == "activation" else options[ours]
            for name, (ours, *_) in cls.names().items()
        }

    @classmethod
    def names(cls) -> dict[str, tuple[str, ...]]:
        """Return our options by field name; see `_option`."""
        names: dict[str, tuple[str, ...]] = {}
        for base in reversed(cls.__mro__):  # subclasses override defaults and options
            for field in getattr(base, "__dataclass_fields__", {}).values():
                names |= {field.name: field.metadata["ours"]} if field.metadata else {}
        return {name: ours for name, ours in names.items() if ours}

    @property
    def max_length(self) -> int | None:
        """Number of positions; None if unlimited."""
        limits = [getattr(self, name) for name, ours in self.names().items() if "max_length" in ours]
        return limits[0] if limits else None

    def added(self) -> dict[str, tuple[int, int]]:
        """Return name and shape of tables whose first row is added to every learned position."""
        return {}

    def scales(self) -> _Scales:
        """Return the factors for this configuration."""
        return _Scales()

    @property
    def has_one_table(self) -> bool:
        """Whether one table may be used for all roles that a checkpoint lacks."""
        return True

    def table_sizes(self) -> dict[str, int]:
        """Return the number of rows of each of `tables`."""
        return dict.fromkeys(self.tables, self.vocab_size)

    def layer_names(self, stack: str) -> dict[str, str]:
        """Return tensor names by the path of a part in layer `{i}`."""
        raise NotImplementedError

    def stack_names(self, stack: str) -> dict[str, str]:
        """Return tensor names by the path of a part in the model."""
        raise NotImplementedError

    def positions(self, stack: str) -> tuple[str, Tensor | None, int]:
        """Return the position table's name, its values if computed, and the number of rows to skip."""
        return "", None, 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class _EncoderDecoder(_Family):
    """Base class of encoder-decoder families."""

    eos_token_id: int
    decoder_start_token_id: int | None

    stacks: ClassVar[tuple[str, ...]] = ("encoder", "decoder")
    has_output_bias: ClassVar[bool] = True
    begins_with_language: ClassVar[bool] = False
    """Whether outputs must start with the prefix tokens of the target tokenizer."""


def _tables(prefix: str) -> dict[str, tuple[str, ...]]:
    names = [f"{prefix}{part}.weight" for part in ("encoder.embed_tokens", "decoder.embed_tokens", "shared")]
    return {"source": (names[0], names[2]), "target": (*names[1:],), "output": ("lm_head.weight", *names[1:])}


def _attention(ours: str, theirs: str, names: str) -> dict[str, str]:
    parts = zip(("query", "key", "value", "output"), names.split(), strict=True)
    return {f"{ours}.{part}_dense": f"{theirs}.{name}" for part, name in parts}


def _activation(name: str, field: str) -> str:
    if name not in _ACTIVATIONS:
        wanted = f"`{field}`: the activation must be one of {', '.join(_ACTIVATIONS)}"
        raise InputError(f"{wanted}. Received: {name!r:.80}.")
    return _ACTIVATIONS[name]


def _their_activation(activation: Any) -> str:
    name = str(activation)
    return next((theirs for theirs, ours in _ACTIVATIONS.items() if ours == name), name)
