"""A family of models: one table of option names and tensor names, read in both directions."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Self

from keras_transformer.errors import InputError
from keras_transformer.pretrained.directory import _Directory, _left_out
from keras_transformer.pretrained.generation import _GENERATION_NAMES
from keras_transformer.types import Config, Tensor

# Theirs and ours; the first that has our name is the one that is written.
_ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "swish": "silu",
    "silu": "silu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}
# Names that all of them may have, and that change no number of a model in use: of other tasks, of training,
# and what each library writes down about itself. They are so common that no line names them.
_UNUSED = (
    "_name_or_path _num_labels architectures classif_dropout classifier_dropout decoder_layerdrop dtype "
    "encoder_layerdrop extra_pos_embeddings force_bos_token_to_be_generated gradient_checkpointing id2label "
    "init_std initializer_factor is_encoder_decoder label2id max_position_embeddings model_type n_positions "
    "num_hidden_layers output_past prefix save_step task_specific_params tie_word_embeddings tokenizer_class "
    "torch_dtype transformers_version use_cache share_encoder_decoder_embeddings sep_token_id"
)
_IGNORED = frozenset(_UNUSED.split())
# What would change numbers in any of them, and the only value that is read.
_ALWAYS: Config = {
    "is_decoder": False,
    "pruned_heads": {},
    "quantization_config": None,
}


class _Scales(NamedTuple):
    """Factors of the embeddings, the logits and the queries, where theirs are not ours."""

    embeddings: float = 1.0
    logits: float = 1.0
    queries: float = 1.0


def _option(default: Any, *ours: str) -> Any:
    """Make a field with the options of ours that have its value, of which the first is written."""
    return dataclasses.field(default=default, metadata={"ours": ours})


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Family:
    """Fields of a `config.json` with the defaults of its library, which leaves out what equals them."""

    vocab_size: int
    pad_token_id: int

    stacks: ClassVar[tuple[str, ...]]
    """Which a model has: `encoder`, `decoder`, or both."""
    architectures: ClassVar[tuple[str, ...]]
    tokenizer_class: ClassVar[str]
    """Where a directory names no class of tokenizers, or one that says nothing."""
    fixed: ClassVar[Config]
    """Our options that have one value in the family."""
    tables: ClassVar[Mapping[str, tuple[str, ...]]]
    """Names of the tables of token vectors, of which a checkpoint has the first or the next."""
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Further names that change no number, or that the tokenizer follows."""
    zeros: ClassVar[tuple[str, ...]] = ()
    """How tensors end that a checkpoint leaves out, since they are zeros."""
    prefix: ClassVar[str] = "model."
    """How the names of tensors begin, unless the model was saved without the layer that makes logits."""

    @property
    def last_side(self) -> str:
        """The side of the vocabulary that logits are of."""
        return "target" if "decoder" in self.stacks else "source"

    @classmethod
    def read(cls, directory: _Directory) -> Self:
        """Read a configuration; raise InputError for another architecture or an unknown option."""
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
        # The classes of transformers read no other names.
        others = {name: config[name] for name in config.keys() - known if config[name] not in (None, False)}
        _left_out(path, (f"{name}={others[name]!r:.80}" for name in sorted(others)))
        return family

    def sizes(self) -> Iterator[tuple[str, int, str, int, int]]:
        """Yield a name of the configuration, its value, and the tensor and its axis that has this size.

        The last is the number of rows that a tensor has besides. The headers of the weights have all sizes,
        so that they are compared before anything is built.
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
                value = getattr(self, self._name(ours))  # of which some families count the first rows too
                yield self._name(ours), value, name, 0, first + options[ours] - value

    def layers(self) -> Iterator[tuple[str, int, str]]:
        """Yield the name of each number of layers, the number, and a tensor that each layer `{i}` has."""
        for stack in self.stacks:
            ours = f"num_{stack}_layers"
            tensor = f"{self.layer_names(stack)['feed_forward.inner']}.weight"
            yield self._name(ours), self.options()[ours], tensor

    def _name(self, ours: str, stack: str = "") -> str:
        """Return the name of an option of ours, that of a stack if each has its own."""
        names = [name for name, all_of_ours in self.names().items() if ours in all_of_ours]
        return next((name for name in names if name.startswith(stack)), names[0])

    def always(self) -> Config:
        """Return further names with their only value: that of the family, or what follows from others."""
        raise NotImplementedError

    def options(self) -> Config:
        """Return the options of our model, apart from vocabularies and tables."""
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
        """Return the fields that come nearest to options of our model, the inverse of `options`."""
        return {
            name: _their_activation(options[ours]) if ours == "activation" else options[ours]
            for name, (ours, *_) in cls.names().items()
        }

    @classmethod
    def names(cls) -> dict[str, tuple[str, ...]]:
        """Return our options by the name of the field that has their value, see `_option`."""
        names: dict[str, tuple[str, ...]] = {}
        for base in reversed(cls.__mro__):  # a family may have another default, or another option
            for field in getattr(base, "__dataclass_fields__", {}).values():
                names |= {field.name: field.metadata["ours"]} if field.metadata else {}
        return {name: ours for name, ours in names.items() if ours}

    @property
    def max_length(self) -> int | None:
        """The number of positions; None if there is no limit."""
        limits = [getattr(self, name) for name, ours in self.names().items() if "max_length" in ours]
        return limits[0] if limits else None

    def added(self) -> dict[str, tuple[int, int]]:
        """Return the shapes of tables, by name, whose first row is added to each learned position."""
        return {}

    def scales(self) -> _Scales:
        """Return the factors of this configuration."""
        return _Scales()

    @property
    def has_one_table(self) -> bool:
        """Whether any of `tables` stands for those that a checkpoint leaves out."""
        return True

    def table_sizes(self) -> dict[str, int]:
        """Return the rows of each of `tables`."""
        return dict.fromkeys(self.tables, self.vocab_size)

    def layer_names(self, stack: str) -> dict[str, str]:
        """Return their names by the path of the part in a layer, `{i}`."""
        raise NotImplementedError

    def stack_names(self, stack: str) -> dict[str, str]:
        """Return their names by the path of the part in the model."""
        raise NotImplementedError

    def positions(self, stack: str) -> tuple[str, Tensor | None, int]:
        """Return the name of a table of positions, its values where they are known, and rows to leave out."""
        return "", None, 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class _EncoderDecoder(_Family):
    """A family whose decoder writes what a search chooses."""

    eos_token_id: int
    decoder_start_token_id: int | None

    stacks: ClassVar[tuple[str, ...]] = ("encoder", "decoder")
    has_output_bias: ClassVar[bool] = True
    begins_with_language: ClassVar[bool] = False
    """Whether the decoder must write the tokens that the tokenizer of the target begins with."""


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
