"""A family of encoder-decoders: what a configuration means in ours, and the names of the tensors."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.errors import InputError
from keras_transformer.models import Transformer
from keras_transformer.pretrained.checkpoint_files import _Tensors
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
_BIAS = "final_logits_bias"
# The logit of what is no token there, as our start: its probability is 0 in float32, and label smoothing,
# which gives it a share of the target too, adds a small number to the loss.
_NO_TOKEN_BIAS = -1000.0


# How the tensor of a part's weight ends.
_ENDINGS = {
    "kernel": "weight",
    "gamma": "weight",
    "scale": "weight",
    "biases": "weight",
    "bias": "bias",
    "beta": "bias",
}


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
    has_output_bias: ClassVar[bool] = True
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Further names that change no number, or that the tokenizer follows."""
    zeros: ClassVar[tuple[str, ...]] = ()
    """How tensors end that a checkpoint leaves out, since they are zeros."""

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

    @classmethod
    def fields(cls, options: Config) -> Config:
        """Return the fields that come nearest to options of our model, the inverse of `options`."""
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


def _their_activation(name: str) -> str:
    return {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}.get(name, name)


def _attention(ours: str, theirs: str, names: str) -> dict[str, str]:
    parts = zip(("query", "key", "value", "output"), names.split(), strict=True)
    return {f"{ours}.{part}_dense": f"{theirs}.{name}" for part, name in parts}


def _parts(model: Transformer, family: _Family) -> list[tuple[keras.layers.Layer, str, float]]:
    """Return each part of a model, tables aside, with its name there and the factor of its kernel."""
    pairs = []
    for stack in ("encoder", "decoder"):
        for number, layer in enumerate(getattr(model, stack).layers):
            for path, name in family.layer_names(stack).items():
                factor = family.scales().queries if path.endswith("query_dense") else 1.0
                pairs.append((_part(layer, path), name.format(i=number), factor))
        pairs += [(_part(model, path), name, 1.0) for path, name in family.stack_names(stack).items()]
    return [(part, name, factor) for part, name, factor in pairs if part is not None]


def _part(owner: object, path: str) -> keras.layers.Layer | None:
    for name in path.split("."):
        owner = getattr(owner, name, None)
    return owner


class _Weight(NamedTuple):
    """A weight of a part, and what its tensor is called and looks like."""

    variable: Tensor
    name: str
    shape: tuple[int, ...]
    factor: float = 1.0
    is_matrix: bool = False
    width_axis: int | None = 0
    """The axis that has the features of the model."""

    def ours(self, values: Tensor) -> Tensor:
        """Turn the tensor into the weight."""
        values = values.T if self.is_matrix else values
        with np.errstate(all="ignore"):  # what is not finite is found in the model
            return np.reshape(values * np.float32(self.factor), self.variable.shape)

    def theirs(self) -> Tensor:
        """Turn the weight into the tensor."""
        values = ops.convert_to_numpy(self.variable).astype("float32") / np.float32(self.factor)
        return np.reshape(values, self.shape[::-1]).T if self.is_matrix else np.reshape(values, self.shape)


def _weights(part: keras.layers.Layer, name: str, factor: float) -> Iterator[_Weight]:
    """Yield the weights of a part that has the name."""
    # The others read the features of the model, and write others.
    writes_features = part.name in ("attention_output", "outer")
    for attribute, ending in _ENDINGS.items():
        variable: Tensor = getattr(part, attribute, None)
        if not hasattr(variable, "shape"):
            continue
        shape, tensor = tuple(variable.shape), f"{name}.{ending}"
        if part.name.endswith("convolution") and attribute == "kernel":
            # (o, i, 3) -> (3 i, o)
            yield _Weight(variable, tensor, (shape[1], shape[0] // 3, 3), is_matrix=True, width_axis=None)
        elif attribute == "kernel":
            # (o, i) -> (i, o); the output of attention, (h, k, d), has two axes of inputs.
            num_outputs = shape[-1] if writes_features else math.prod(shape[1:])
            matrix, axis = (num_outputs, math.prod(shape) // num_outputs), 0 if writes_features else 1
            yield _Weight(variable, tensor, matrix, factor, is_matrix=True, width_axis=axis)
        elif attribute == "biases":
            yield _Weight(variable, tensor, shape, width_axis=None)
        else:
            # Heads have an axis of their own here.
            is_inner = attribute == "bias" and not writes_features
            yield _Weight(variable, tensor, (math.prod(shape),), factor, width_axis=None if is_inner else 0)


def _fill(
    part: keras.layers.Layer,
    tensors: _Tensors,
    name: str,
    factor: float,
    zeros: tuple[str, ...] = (),
) -> None:
    for weight in _weights(part, name, factor):
        is_left_out = weight.name.endswith(zeros) and weight.name not in tensors
        values = np.zeros(weight.shape) if is_left_out else tensors.read(weight.name, weight.shape)
        weight.variable.assign(weight.ours(values))
