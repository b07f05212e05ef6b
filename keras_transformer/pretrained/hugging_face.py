"""A directory as the Hugging Face hub has it: its configuration, and the `Transformer` of its weights."""

import dataclasses
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from keras import ops
from safetensors.numpy import save_file

from keras_transformer._arguments import check_finite, import_extra
from keras_transformer._backend import assign_rows
from keras_transformer._files import as_path, atomic_file, errors_named, read_file, read_table, write_file
from keras_transformer.errors import InputError
from keras_transformer.models import Transformer, TransformerConfig
from keras_transformer.pretrained.bart import _M2M100, _Bart, _Marian, _MBart, _Pegasus, _PLBart
from keras_transformer.pretrained.checkpoint_files import _Tensors, _tensors_of_directory
from keras_transformer.pretrained.family import _BIAS, _IGNORED, _NO_TOKEN_BIAS, _Family, _fill, _parts
from keras_transformer.pretrained.generation import _GENERATION_NAMES, _Generation, _read_generation
from keras_transformer.pretrained.t5 import _MT5, _T5, _UMT5
from keras_transformer.pretrained.whisper import _Whisper
from keras_transformer.pretrained.written_checkpoint import _written
from keras_transformer.types import SPECIAL_IDS, Config

_Array: TypeAlias = npt.NDArray[np.float32]
_Ids: TypeAlias = npt.NDArray[np.int64]

# What a model on the hub has besides, in other formats: each is as large as the weights.
_NOT_DOWNLOADED = ["*.h5", "*.msgpack", "*.ot", "*.onnx", "*.tflite", "*.gguf", "onnx/*", "openvino/*"]

_FAMILIES: dict[str, type[_Family]] = {
    "bart": _Bart,
    "m2m_100": _M2M100,
    "marian": _Marian,
    "mbart": _MBart,
    "mt5": _MT5,
    "pegasus": _Pegasus,
    "plbart": _PLBart,
    "t5": _T5,  # and ByT5
    "umt5": _UMT5,
    "whisper": _Whisper,
}
# Those that a model of ours can become, first the simpler one; the others are special cases of these.
_WRITTEN = ("marian", "pegasus", "bart", "mbart", "m2m_100", "t5", "umt5")


class HuggingFaceCheckpoint:
    """A pretrained encoder-decoder in a directory as the hub has it.

    Its family is one of Marian, BART, mBART, PLBart, Pegasus, M2M100 with NLLB, T5 with its version 1.1 and
    ByT5, mT5, UMT5, and Whisper.
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
        try:
            TransformerConfig(**self._family.options())
        except ValueError as error:
            raise InputError(f"{path}: {error}") from error

    def _generation(self) -> _Generation:
        path, table = self.directory / "generation_config.json", self.config
        # Older models have its names in `config.json`.
        if path.is_file():
            table = read_table(read_file(path), path)
        else:
            path = self.directory / "config.json"
            table = {name: value for name, value in table.items() if name in _GENERATION_NAMES}
        family = self._family
        table = {name: value for name, value in table.items() if name not in family.ignored}
        generation = _read_generation(table, path)
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

    def load(self, source_ids: _Ids | None, target_ids: _Ids) -> Transformer:
        """Make the model with the weights of the checkpoint, for the vocabularies of tokenizers.

        Args:
            source_ids: `Tokenizer.original_ids` of the source, `(v,)`: for each id that in the checkpoint. Of
                the start token it is the one that decoding starts from, or -1 for that of the configuration.
                None where the source is audio, of Whisper.
            target_ids: likewise of the target.

        Returns:
            A `Transformer`, which is not compiled. The start token is never generated.

        Raises:
            InputError: if a tensor is missing, unknown, of another shape or not finite, a file is damaged, or
                a vocabulary has another size.
        """
        tensors = _tensors_of_directory(self.directory)
        tables = _Tables(tensors, self._family, self.directory)
        start_id = int(self.generation.decoder_start_token_id or 0)  # never None here
        ids = {"target": target_ids} if source_ids is None else {"source": source_ids, "target": target_ids}
        rows = {side: tables.rows(side, each, start_id) for side, each in ids.items()}
        bias = self._output_bias(tensors, target_ids, rows["target"])
        model = Transformer(
            None if source_ids is None else len(source_ids),
            len(target_ids),
            **self._family.options(),
            share_embeddings=source_ids is not None
            and tables.names["source"] == tables.names["target"]
            and np.array_equal(source_ids, target_ids),
            tie_output=tables.names["output"] == tables.names["target"],
            scale_embeddings=tables.scales_embeddings,
            output_bias=bias is not None,
        )
        for part, name, factor in _parts(model, self._family):
            _fill(part, tensors, name, factor, self._family.zeros)
        self._fill_positions(model, tensors)
        tables.fill(model, rows)
        if bias is not None:
            model.output_projection.bias.assign(bias)
        tensors.check_all_read()
        check_finite(self.directory, model.weights)
        return model

    @classmethod
    def write(
        cls,
        directory: str | Path,
        model: Transformer,
        source_ids: _Ids,
        target_ids: _Ids,
        *,
        generation: Config,
        num_positions: int = 512,
    ) -> tuple[_Ids, _Ids]:
        """Write a model as one of `transformers`: what `load` reads.

        The family is the one that has the options of the model. Sinusoids that are interleaved become
        concatenated ones, with the features in another order everywhere.

        Args:
            directory: the files are written into it. What it has already is not looked at.
            model: a `Transformer`.
            source_ids: for each of our ids that in the checkpoint, -1 for none: `(v,)`.
            target_ids: likewise of the target. If its start token has none, decoding starts from a token
                that has the same vector, or from a new one.
            generation: names and values of a `generation_config.json`, apart from the special tokens.
            num_positions: of sinusoids.

        Returns:
            The ids, in which the start token may have a new one.

        Raises:
            InputError: if a file cannot be written.
            ValueError: if no family has the options of the model; the message names them.
        """
        directory, ids = as_path(directory), {"source": source_ids, "target": target_ids}
        _check_single(model)
        start_id, ids = _start(model, ids)
        written = _written(model, ids, num_positions, {kind: _FAMILIES[kind] for kind in _WRITTEN})
        special = {
            "decoder_start_token_id": start_id,
            "eos_token_id": written.family.eos_token_id,
            "pad_token_id": written.family.pad_token_id,
        }
        tables = {
            "config.json": {**written.config, **special},
            "generation_config.json": generation | special,
        }
        for name, table in tables.items():
            write_file(directory / name, (json.dumps(table, indent=2) + "\n").encode())
        with errors_named("write", directory), atomic_file(directory / "model.safetensors") as partial:
            save_file(written.tensors, partial, metadata={"format": "pt"})
        _check_equal(model, cls(directory).load(ids["source"], ids["target"]))
        return ids["source"], ids["target"]

    def _fill_positions(self, model: Transformer, tensors: _Tensors) -> None:
        for stack in ("encoder", "decoder"):
            name, wanted, first = self._family.positions(stack)
            if wanted is None and name:
                is_own = stack == "decoder" and not model.config.share_positions
                encoding = getattr(model, "target_position_encoding" if is_own else "position_encoding")
                length, width = encoding.marks.shape
                encoding.marks.assign(tensors.read(name, (length + first, width))[first:])
            elif wanted is not None:
                # Some versions write them, though they follow from the sizes. Half precision has 3 digits.
                if name in tensors and not np.allclose(tensors.read(name, wanted.shape), wanted, atol=2e-3):
                    raise InputError(f"{self.directory} must have sinusoids in {name!r}. Received: others.")
                if model.config.positions == "learned":
                    model.position_encoding.marks.assign(wanted[first:])

    def _output_bias(self, tensors: _Tensors, target_ids: _Ids, rows: _Ids) -> _Array | None:
        size, is_new = self._family.table_sizes()["output"], target_ids < 0
        if _BIAS not in tensors and not is_new.any():
            return None
        bias = tensors.read(_BIAS, (1, size))[0] if _BIAS in tensors else np.zeros(size, "float32")
        return np.where(is_new, np.float32(_NO_TOKEN_BIAS), bias[rows])


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
        # Decoding may start from a token that is one of the others too, a language.
        size, regular = self._sizes[side], np.unique(ids[ids >= 0])
        is_first = np.array_equal(regular, np.arange(len(regular))) and len(regular) <= size
        # Rows of zeros are no tokens: they fill up the smaller of two tables.
        if not is_first or (len(regular) < size and self._read(self.names[side], side)[len(regular) :].any()):
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
        if "source" in rows and not model.config.share_embeddings:
            sides["source"] = model.source_embedding
        for side, embedding in sides.items():
            table = self._read(self.names[side], side)
            assign_rows(embedding.embeddings, partial(_scaled_rows, table, rows[side], np.float32(factor)))
            del table  # the next one takes its memory
        if not self._is_tied:
            table, logits = self._read(self.names["output"], "output"), self._family.scales().logits
            kernel = model.output_projection.dense.kernel
            # (v, d) -> (d, v)
            assign_rows(kernel, lambda block: table[rows["target"], block].T * np.float32(logits))


def _scaled_rows(table: _Array, rows: _Ids, factor: np.float32, block: slice) -> _Array:
    return table[rows[block]] * factor


def _check_single(model: Transformer) -> None:
    if not isinstance(model, Transformer):
        raise ValueError(f"`model` must be a single `Transformer`. Received: a {type(model).__name__}.")
    if model.config.encoder_feature_dim is not None:
        received = f"encoder_feature_dim={model.config.encoder_feature_dim}"
        raise ValueError(f"`model` must read token ids, no frames. Received: {received}.")
    if model.is_quantized:
        raise ValueError("`model` must have weights of floats. Received: is_quantized=True.")


def _start(model: Transformer, ids: Mapping[str, _Ids]) -> tuple[int, dict[str, _Ids]]:
    """Return the id that decoding starts from there, and the ids, of which it may be a new one."""
    target = ids["target"]
    if target[SPECIAL_IDS.start] >= 0:
        return int(target[SPECIAL_IDS.start]), dict(ids)
    table = ops.convert_to_numpy(model.target_embedding.embeddings)
    same = (table == table[SPECIAL_IDS.start]).all(axis=1) & (target >= 0)
    if same.any():
        return int(target[np.argmax(same)]), dict(ids)
    # It was trained further, and has become a token of its own.
    new = target.copy()
    new[SPECIAL_IDS.start] = target.max() + 1
    is_one = np.array_equal(ids["source"], target)
    return int(new.max()), {"source": new if is_one else ids["source"], "target": new}


def _check_equal(model: Transformer, again: Transformer) -> None:
    """Raise ValueError unless what was written gives the logits of the model."""
    if model.output_projection.compute_dtype != "float32":
        model = model.with_dtype("float32")
    draw, length = np.random.default_rng(0), min(8, model.max_length or 8)
    sizes = model.source_embedding.vocabulary_size, model.target_embedding.vocabulary_size
    source, target = (draw.integers(SPECIAL_IDS.end, size, (2, length)) for size in sizes)
    target[:, 0] = SPECIAL_IDS.start
    wanted, logits = (
        ops.convert_to_numpy(each({"encoder_token_ids": source, "decoder_token_ids": target}))
        for each in (model, again)
    )
    # It is never generated, and not every family can say so.
    wanted, logits = (np.delete(each, SPECIAL_IDS.start, axis=-1) for each in (wanted, logits))
    difference = float(np.abs(logits - wanted).max())
    if difference > 1e-4 * max(1.0, float(np.abs(wanted).max())):
        raise ValueError(
            "What is written must give the logits of the model. "
            f"Received: a difference of {difference:.1e}, with layer_norm_epsilon="
            f"{again.config.layer_norm_epsilon} in place of {model.config.layer_norm_epsilon}."
        )


def _directory(source: str | Path) -> Path:
    path = as_path(source)
    if path.is_dir():
        return path
    # As `ORGANIZATION/NAME`; anything else is a path that is not there.
    if path.is_absolute() or len(path.parts) != 2 or path.parts[0] in (".", ".."):
        raise InputError(f"{path} must be a directory, or the name of a model on the hub. Received: neither.")
    hub = import_extra("huggingface_hub", f"{path} is no directory, and to download a model", "hugging_face")
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
        is_known = name in fields | always.keys() | _IGNORED | _GENERATION_NAMES | family.ignored
        if not is_known and value not in (None, False):
            raise InputError(f"{path}: the option {name!r} is not known. Received: {name}={value!r:.80}.")
    return parsed
