"""A directory as the Hugging Face hub has it: its configuration, and the `Transformer` of its weights."""

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import keras
import numpy as np
import numpy.typing as npt

from keras_transformer.arguments import _check_finite, _package
from keras_transformer.errors import InputError
from keras_transformer.files import _as_path, read_file, read_table
from keras_transformer.models import Transformer, TransformerConfig
from keras_transformer.pretrained.checkpoint_files import _Tensors
from keras_transformer.pretrained.families import _FAMILIES, _IGNORED, _Family
from keras_transformer.types import SPECIAL_IDS, Config

_Array: TypeAlias = npt.NDArray[np.float32]
_Ids: TypeAlias = npt.NDArray[np.int64]

# What a model on the hub has besides, in other formats: each is as large as the weights.
_NOT_DOWNLOADED = ["*.h5", "*.msgpack", "*.ot", "*.onnx", "*.tflite", "*.gguf", "onnx/*", "openvino/*"]
# The logit of our start token, which no vocabulary of theirs has: its probability is 0 in float32, and label
# smoothing, which gives it a share of the target too, adds a small number to the loss.
_START_BIAS = -1000.0
# How the tensor of a part's weight ends.
_ENDINGS = {
    "kernel": "weight",
    "gamma": "weight",
    "scale": "weight",
    "biases": "weight",
    "bias": "bias",
    "beta": "bias",
}


# Names that must have one of these values, or None: another would change the outputs, and no search here does
# what it says.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "constraints": (),
    "diversity_penalty": (0.0,),
    "do_sample": (False,),
    "dola_layers": (),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1.0,),
    "exponential_decay_length_penalty": (),
    "force_words_ids": (),
    "guidance_scale": (1.0,),
    "max_time": (),
    "num_beam_groups": (1,),
    "num_return_sequences": (1,),
    "penalty_alpha": (0.0,),
    "prompt_lookup_num_tokens": (),
    "renormalize_logits": (False,),
    "remove_invalid_values": (False,),
    "repetition_penalty": (1.0,),
    "sequence_bias": (),
    "stop_strings": (),
    "token_healing": (False,),
    "watermarking_config": (),
}
# Of samples alone, of the cache, and of what is returned beside the tokens.
_OTHERS = (
    "_from_model_config assistant_confidence_threshold assistant_early_exit assistant_lookbehind "
    "cache_config cache_implementation compile_config disable_compile epsilon_cutoff eta_cutoff is_assistant "
    "low_memory max_cache_len max_matching_ngram_size min_p num_assistant_tokens "
    "num_assistant_tokens_schedule output_attentions output_hidden_states output_logits output_scores "
    "return_dict_in_generate return_legacy_cache target_lookbehind temperature top_h top_k top_p "
    "transformers_version typical_p use_cache"
)
_UNUSED = frozenset(_OTHERS.split())


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Generation:
    """The names that a search here follows, with the defaults of transformers."""

    max_length: int | None = None
    max_new_tokens: int | None = None
    min_length: int = 0
    min_new_tokens: int | None = None
    num_beams: int = 1
    early_stopping: bool | Literal["never"] = False
    length_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    forced_bos_token_id: int | None = None
    forced_eos_token_id: int | tuple[int, ...] | None = None
    decoder_start_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | tuple[int, ...] | None = None
    pad_token_id: int | None = None


_GENERATION_NAMES = {field.name for field in dataclasses.fields(_Generation)} | {*_NEUTRAL, *_UNUSED}


class HuggingFaceCheckpoint:
    """A pretrained encoder-decoder in a directory as the hub has it.

    Its family is one of Marian, BART, mBART, Pegasus, M2M100 with NLLB, T5 with its version 1.1 and ByT5,
    mT5, and UMT5.
    Weights are read from safetensors; from a pickle only where torch is installed, and only tensors.

    Args:
        source: the directory, with a `config.json`; or the name of a model on the hub, which
            `huggingface_hub` downloads.

    Raises:
        InputError: if there is no such directory, the model is of another architecture, or its configuration
            has an option that is not known.
    """

    def __init__(self, source: str | Path) -> None:
        self.directory = _directory(source)
        path = self.directory / "config.json"
        self.config = read_table(read_file(path), path)
        self._family = _family(self.config, path)
        self.generation = self._generation()

    def _generation(self) -> _Generation:
        path, table = self.directory / "generation_config.json", self.config
        # Older models have its names in `config.json`.
        if path.is_file():
            table = read_table(read_file(path), path)
        else:
            path = self.directory / "config.json"
            table = {name: value for name, value in table.items() if name in _GENERATION_NAMES}
        generation, family = _read_generation(table, path), self._family
        start_ids = generation.decoder_start_token_id, family.decoder_start_token_id, generation.bos_token_id
        start_id = next((each for each in start_ids if each is not None), None)
        if start_id is None:
            raise InputError(f"{path}: `decoder_start_token_id` must be an id. Received: {start_id}.")
        end_id = family.eos_token_id if generation.eos_token_id is None else generation.eos_token_id
        if end_id != family.eos_token_id:
            wanted = f"`eos_token_id` must be {family.eos_token_id}, as in the configuration of the model"
            raise InputError(f"{path}: {wanted}. Received: {end_id}.")
        return dataclasses.replace(generation, decoder_start_token_id=start_id, eos_token_id=end_id)

    @property
    def max_length(self) -> int | None:
        """The number of positions that the model knows; None if there is no limit."""
        return self._family.max_length

    def load(self, source_ids: _Ids, target_ids: _Ids) -> Transformer:
        """Make the model with the weights of the checkpoint, for the vocabularies of tokenizers.

        Args:
            source_ids: `Tokenizer.original_ids` of the source, `(v,)`: for each id that in the checkpoint, -1
                for the start token, whose vector is that of the token that decoding starts from there.
            target_ids: likewise of the target.

        Returns:
            A `Transformer`, which is not compiled. The start token is never generated.

        Raises:
            InputError: if a tensor is missing, unknown, of another shape or not finite, a file is damaged, or
                a vocabulary has another size.
        """
        tensors = _Tensors(self.directory)
        tables = _Tables(tensors, self._family, self.directory)
        start_id = int(self.generation.decoder_start_token_id or 0)  # never None here
        ids = {"source": source_ids, "target": target_ids}
        rows = {side: tables.rows(side, each, start_id) for side, each in ids.items()}
        model = Transformer(
            len(source_ids),
            len(target_ids),
            **self._family.options(),
            share_embeddings=tables.names["source"] == tables.names["target"]
            and np.array_equal(source_ids, target_ids),
            tie_output=tables.names["output"] == tables.names["target"],
            scale_embeddings=tables.scales_embeddings,
            output_bias=True,
        )
        for part, name, factor in _parts(model, self._family):
            _fill(part, tensors, name, factor)
        self._fill_positions(model, tensors)
        tables.fill(model, rows)
        model.output_projection.bias.assign(self._output_bias(tensors, rows["target"]))
        tensors.check_all_read()
        _check_finite(self.directory, model.weights)
        return model

    def _fill_positions(self, model: Transformer, tensors: _Tensors) -> None:
        for stack in ("encoder", "decoder"):
            name, wanted, first = self._family.positions(stack)
            if wanted is None and name:
                shape = ((self._family.max_length or 0) + first, model.config.hidden_dim)
                marks = tensors.read(name, shape)
                encoding = model.position_encoding if stack == "encoder" else model.target_position_encoding
                encoding.marks.assign(marks[first:])
            elif wanted is not None:
                # Some versions write them, though they follow from the sizes. Half precision has 3 digits.
                if name in tensors and not np.allclose(tensors.read(name, wanted.shape), wanted, atol=2e-3):
                    raise InputError(f"{self.directory} must have sinusoids in {name!r}. Received: others.")
                if model.config.positions == "learned":
                    model.position_encoding.marks.assign(wanted[first:])

    def _output_bias(self, tensors: _Tensors, rows: _Ids) -> _Array:
        name, size = "final_logits_bias", self._family.table_sizes()["output"]
        bias = tensors.read(name, (1, size))[0] if name in tensors else np.zeros(size, "float32")
        bias = bias[rows]
        bias[SPECIAL_IDS.start] = _START_BIAS
        return bias


class _Tables:
    """The tables of token vectors of a checkpoint, of which source, target and logits may share one."""

    def __init__(self, tensors: _Tensors, family: _Family, directory: Path) -> None:
        self._tensors, self._family, self._directory = tensors, family, directory
        self._sizes = family.table_sizes()
        given = {role: [name for name in names if name in tensors] for role, names in family.tables.items()}
        for role, found in given.items():
            if not found:
                raise InputError(f"{directory} is not whole: it has no tensor {family.tables[role][-1]!r}.")
        # The shared one comes first, and older files have copies of it.
        each = {name: role for role in family.tables for name in reversed(given[role])}
        first = self._first_equal(each)
        self.names = {role: first[found[0]] for role, found in given.items()}

    def _first_equal(self, roles: Mapping[str, str]) -> dict[str, str]:
        if len(roles) == 1:
            return {name: name for name in roles}
        first: dict[str, str] = {}
        for name in roles:
            table = self._read(name, roles[name])
            equal = (each for each in first.values() if np.array_equal(table, self._read(each, roles[each])))
            first[name] = next(equal, name)
        return first

    def _read(self, name: str, role: str) -> _Array:
        return self._tensors.read(name, (self._sizes[role], self._family.d_model))

    @property
    def _is_tied(self) -> bool:
        return self.names["output"] == self.names["target"]

    @property
    def scales_embeddings(self) -> bool:
        """Whether our embeddings multiply with the root of their width."""
        # A table that the logits share has their factor, which the embeddings must make good.
        factor = self._family.scales().logits if self._is_tied else 1.0
        return self._family.scales().embeddings != factor

    def rows(self, side: str, ids: _Ids, start_id: int) -> _Ids:
        """Return the row of each of our ids."""
        size, regular = self._sizes[side], ids[ids >= 0]
        if not np.array_equal(np.sort(regular), np.arange(size)):
            raise InputError(
                f"{self._directory}: the {side} tokenizer must have the vocabulary of the model, {size} ids. "
                f"Received: {len(regular)} ids, up to {ids.max()}."
            )
        rows = np.where(ids < 0, start_id, ids)
        # A source has no start; its vocabulary may be smaller, where there are two.
        if side == "target" and not 0 <= start_id < size:
            wanted = f"`decoder_start_token_id` must be an id below {size}, the size of the vocabulary"
            raise InputError(f"{self._directory}: {wanted}. Received: {start_id}.")
        return np.minimum(rows, size - 1)

    def fill(self, model: Transformer, rows: Mapping[str, _Ids]) -> None:
        factor = self._family.scales().logits if self._is_tied else 1.0
        sides = {"target": model.target_embedding}
        if not model.config.share_embeddings:
            sides["source"] = model.source_embedding
        for side, embedding in sides.items():
            table = self._read(self.names[side], side)[rows[side]]
            table *= factor
            embedding.embeddings.assign(table)
        if not self._is_tied:
            table = self._read(self.names["output"], "output")[rows["target"]]
            table *= self._family.scales().logits
            # (v, d) -> (d, v)
            model.output_projection.dense.kernel.assign(table.T)


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


def _fill(part: keras.layers.Layer, tensors: _Tensors, name: str, factor: float) -> None:
    for attribute, ending in _ENDINGS.items():
        weight = getattr(part, attribute, None)
        if not isinstance(weight, keras.Variable):
            continue
        shape = tuple(weight.shape)
        if attribute != "kernel":
            # Heads have an axis of their own here.
            theirs = shape if attribute == "biases" else (math.prod(shape),)
            values = tensors.read(f"{name}.{ending}", theirs)
            weight.assign(np.reshape(values if attribute == "biases" else values * factor, shape))
            continue
        # (o, i) -> (i, o); the output of attention, (h, k, d), has two axes of inputs.
        num_outputs = shape[-1] if part.name == "attention_output" else math.prod(shape[1:])
        values = tensors.read(f"{name}.{ending}", (num_outputs, math.prod(shape) // num_outputs))
        weight.assign(np.reshape(values.T * np.float32(factor), shape))


def _directory(source: str | Path) -> Path:
    path = _as_path(source)
    if path.is_dir():
        return path
    # As `ORGANIZATION/NAME`; anything else is a path that is not there.
    if path.is_absolute() or len(path.parts) != 2 or path.parts[0] in (".", ".."):
        raise InputError(f"{path} must be a directory, or the name of a model on the hub. Received: neither.")
    hub = _package("huggingface_hub", f"{path} is no directory, and to download a model", "hugging_face")
    try:
        return Path(hub.snapshot_download(path.as_posix(), ignore_patterns=_NOT_DOWNLOADED))
    # Of the network, of its library, or of the disk: of many classes.
    except Exception as error:
        message = " ".join(str(error).split())
        raise InputError(f"{path} is no directory, and cannot be downloaded: {message:.300}") from error


def _family(config: Config, path: Path) -> _Family:
    """Return what a configuration says; raise InputError for another architecture or an unknown option."""
    kind = config.get("model_type")
    if kind not in _FAMILIES:
        raise InputError(f"{path}: `model_type` must be one of {', '.join(_FAMILIES)}. Received: {kind!r}.")
    family = _FAMILIES[kind]
    architectures = config.get("architectures") or [family.architectures[0]]
    if not set(map(str, architectures)) & set(family.architectures):
        wanted = f"`architectures` must have {' or '.join(family.architectures)}"
        raise InputError(f"{path}: {wanted}. Received: {architectures!r:.80}.")
    fields = {field.name for field in dataclasses.fields(family)}
    given = {name: config[name] for name in fields & config.keys() if config[name] is not None}
    parsed: _Family = read_table(json.dumps(given).encode(), path, family)
    always = {**parsed.always(), "is_decoder": False, "is_encoder_decoder": True}
    for name, value in config.items():
        if name in always and value not in (None, always[name]):
            raise InputError(f"{path}: `{name}` must be {always[name]} in a {kind}. Received: {value!r:.80}.")
        is_known = name in fields | always.keys() | _IGNORED | _GENERATION_NAMES
        if not is_known and value not in (None, False):
            raise InputError(f"{path}: the option {name!r} is not known. Received: {name}={value!r:.80}.")
    try:
        TransformerConfig(**parsed.options())
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
    return parsed


def _read_generation(table: Config, path: Path) -> _Generation:
    """Return what a table of names says; raise InputError for what no search here can do."""
    followed = {}
    for name, value in table.items():
        if name not in _GENERATION_NAMES and value not in (None, False):
            raise InputError(f"{path}: the option {name!r} is not known. Received: {name}={value!r:.80}.")
        if name in _NEUTRAL and value is not None and value not in _NEUTRAL[name]:
            wanted = " or ".join(map(str, (*_NEUTRAL[name], None)))
            raise InputError(
                f"{path}: `{name}` must be {wanted}, since no search here does it. Received: {value!r:.80}."
            )
        if name not in _UNUSED and name not in _NEUTRAL and value is not None:
            followed[name] = value
    generation: _Generation = read_table(json.dumps(followed).encode(), path, _Generation)
    return generation
