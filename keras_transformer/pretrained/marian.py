"""A directory of Marian itself, `.npz` and `.yml`, written again as one of Hugging Face."""

import json
import math
import re
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from keras_transformer._files import as_path, errors_named, read_file
from keras_transformer.errors import InputError
from keras_transformer.types import Config

_Array: TypeAlias = npt.NDArray[np.float32]

DECODER_FILE = "decoder.yml"
_OPTIONS_FILE = "special:model.yml"
_SPLITTERS = ("source.spm", "target.spm")
# Options of the architecture with the values that the family has, the first of which is the default.
_NEUTRAL = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-no-projection": ("false",),
    "transformer-preprocess": ("",),
    "transformer-postprocess": ("dan",),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-postprocess-top": ("", "d"),
    "transformer-train-position-embeddings": ("false",),
    "transformer-tied-layers": ("", "[]"),
    "transformer-ffn-depth": ("2",),
    "transformer-decoder-ffn-depth": ("0", "2"),
    "transformer-decoder-dim-ffn": ("0",),
    "lemma-dim-emb": ("0",),
    "ulr": ("false",),
}
_ACTIVATIONS = ("swish", "relu")
_TABLES = {
    "Wemb": "model.shared",
    "encoder_Wemb": "model.encoder.embed_tokens",
    "decoder_Wemb": "model.decoder.embed_tokens",
    "decoder_ff_logit_out_W": "lm_head",
    "decoder_ff_logit_out_Wt": "lm_head",
}
_BLOCKS = {
    "encoder": {"self": "self_attn"},
    "decoder": {"self": "self_attn", "context": "encoder_attn"},
}
_PROJECTIONS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error)
_OUTPUT_BIAS = "decoder_ff_logit_out_b"
# Padding, which Marian does not have, stands for the start; it has no probability.
_PAD, _PAD_BIAS = "<pad>", -1000.0


# A key of YAML with its value, and an item of the list of the key before.
_ENTRY, _ITEM = re.compile(r"([\w.-]+):\s*(.*)"), re.compile(r"\s*-\s+(.*)")
_Options: TypeAlias = dict[str, list[str]]


def _as_hugging_face(directory: Path) -> Path:
    """Write the files of Hugging Face to a new temporary directory, which the caller removes."""
    decoder = _parse((directory / DECODER_FILE), read_file(directory / DECODER_FILE))
    names = (*decoder.get("models", ()), *decoder.get("vocabs", ()))
    paths = [directory / as_path(name) for name in names]
    if len(paths) != 3 or not all(path.parent == directory for path in paths):
        wanted = "`models` must be one file beside it, and `vocabs` two"
        raise InputError(f"{directory / DECODER_FILE}: {wanted}. Received: {[path.name for path in paths]}.")
    vocabularies = [_read_vocabulary(path) for path in paths[1:]]
    tensors = _read_tensors(paths[0])
    options = _parse(paths[0], tensors.pop(_OPTIONS_FILE, np.zeros(0, "int8")).tobytes().rstrip(b"\0"))
    config = _configuration(options, decoder, vocabularies, paths[0])
    renamed = _renamed(tensors, config, paths[0])
    sides = zip(("vocab", "target_vocab"), vocabularies, strict=True)
    tables: dict[str, Config] = {
        "config": config,
        "tokenizer_config": {"tokenizer_class": "MarianTokenizer", "separate_vocabs": True},
        **{name: {token: number for number, token in enumerate([*each, _PAD])} for name, each in sides},
    }
    splitters = {name: read_file(directory / name) for name in _SPLITTERS}
    partial = Path(tempfile.mkdtemp(prefix="marian-"))
    try:
        with errors_named("write", partial):
            for name, content in splitters.items():
                (partial / name).write_bytes(content)
            for name, table in tables.items():
                (partial / f"{name}.json").write_text(json.dumps(table), encoding="utf-8")
            save_file(renamed, partial / "model.safetensors")
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return partial


def _parse(path: Path, content: bytes) -> _Options:
    """Read the flat YAML that Marian writes: of each key its value, or the values of its list."""
    found: _Options = {}
    values: list[str] = []
    for line in content.decode("utf-8", "replace").splitlines():
        if entry := _ENTRY.fullmatch(line):
            values = found[entry[1]] = [_unquoted(entry[2])] if entry[2] else []
        elif item := _ITEM.fullmatch(line):
            values.append(_unquoted(item[1]))
    if not found:
        raise InputError(f"{path} must hold options of Marian. Received: {content[:40]!r}.")
    return found


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        codes = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
        coded = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)

        def character(match: re.Match[str]) -> str:
            is_number = len(match[1]) > 1
            return chr(min(int(match[1][1:], 16), 0x10FFFF)) if is_number else codes.get(match[1], match[1])

        return coded.sub(character, text[1:-1])
    return text


def _read_vocabulary(path: Path) -> list[str]:
    """Read tokens in the order of their numbers; a key on a line of its own, `? key`, has it on the next."""
    if path.suffix not in (".yml", ".yaml"):
        raise InputError(f"{path} must be a vocabulary in YAML, `.yml`. Received: {path.name}.")
    numbers: dict[str, str] = {}
    key = None
    for line in read_file(path).decode("utf-8", "replace").split("\n"):
        if line.startswith("? "):
            key = line[2:]
        elif line.strip():
            token, separator, number = line.rpartition(":")
            numbers[_unquoted((key or token).strip(" \r"))] = number.strip() if separator else ""
            key = None
    tokens = sorted(numbers, key=lambda token: int(numbers[token]) if numbers[token].isdecimal() else -1)
    if [numbers[token] for token in tokens] != [str(number) for number in range(len(tokens))] or not tokens:
        wanted = f"the numbers of tokens must be 0 to {len(tokens) - 1}, each once"
        raise InputError(f"{path}: {wanted}. Received: others.")
    for token in ("</s>", "<unk>"):
        if token not in numbers:
            raise InputError(f"{path} must have the token {token!r}. Received: {len(tokens)} others.")
    return tokens


def _configuration(options: _Options, decoder: _Options, vocabularies: list[list[str]], path: Path) -> Config:
    """Return what a `config.json` of the same model holds."""

    def value(name: str, default: str = "") -> str:
        return ", ".join(options.get(name, [default]))

    def number(name: str) -> int:
        if not value(name).isdecimal():
            raise InputError(f"{path}: the option `{name}` must be a number. Received: {value(name)!r}.")
        return int(value(name))

    for name, known in {**_NEUTRAL, "transformer-ffn-activation": _ACTIVATIONS}.items():
        if value(name, known[0]) not in known:
            wanted = f"the option `{name}` must be {' or '.join(map(repr, known))}"
            raise InputError(f"{path}: {wanted}. Received: {value(name)!r}.")
    beams, penalty = decoder.get("beam-size", ["6"])[0], decoder.get("normalize", ["0"])[0]
    if not beams.isdecimal() or not re.fullmatch(r"\d+(\.\d+)?", penalty):
        wanted = "`beam-size` and `normalize` must be numbers"
        raise InputError(f"{path.parent / DECODER_FILE}: {wanted}. Received: {beams!r} and {penalty!r}.")
    start_id = len(vocabularies[1])
    return {
        "model_type": "marian",
        "vocab_size": len(vocabularies[0]) + 1,
        "decoder_vocab_size": start_id + 1,
        "d_model": number("dim-emb"),
        "encoder_layers": number("enc-depth"),
        "decoder_layers": number("dec-depth"),
        **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), number("transformer-heads")),
        **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), number("transformer-dim-ffn")),
        "activation_function": value("transformer-ffn-activation", _ACTIVATIONS[0]),
        "scale_embedding": True,
        "max_position_embeddings": 512,
        "pad_token_id": start_id,
        "eos_token_id": vocabularies[1].index("</s>"),
        "decoder_start_token_id": start_id,
        "bad_words_ids": [[start_id]],
        "max_length": 512,
        "num_beams": max(int(beams), 1),
        "length_penalty": float(penalty),
    }


def _read_tensors(path: Path) -> dict[str, _Array]:
    """Read all arrays; what the file says of sizes is checked before it is believed."""
    tensors = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                with archive.open(info) as file:
                    version = np.lib.format.read_magic(file)
                    if version != (1, 0):
                        raise ValueError(f"arrays of version {version}")
                    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
                    content = file.read()
                    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(content):
                        raise ValueError(f"{info.filename} of {len(content)} bytes")
                    flat = np.frombuffer(content, dtype)
                array = flat.reshape(shape[::-1]).T if is_fortran else flat.reshape(shape)
                name = info.filename.removesuffix(".npy")
                tensors[name] = array if name == _OPTIONS_FILE else array.astype("float32", copy=False)
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, EOFError, KeyError, NotImplementedError, RuntimeError, *_ZIP_ERRORS) as error:
        raise InputError(f"{path} is damaged, or no model of Marian: {error}.") from error
    return tensors


def _names(config: Config) -> dict[str, str]:
    """Return the names of Hugging Face by those of Marian, tables aside."""
    names: dict[str, str] = {}
    for stack, blocks in _BLOCKS.items():
        for number in range(config[f"{stack}_layers"]):
            ours, theirs = f"{stack}_l{number + 1}", f"model.{stack}.layers.{number}"
            for block, attention in blocks.items():
                for part, projection in _PROJECTIONS.items():
                    names[f"{ours}_{block}_W{part}"] = f"{theirs}.{attention}.{projection}.weight"
                    names[f"{ours}_{block}_b{part}"] = f"{theirs}.{attention}.{projection}.bias"
                names[f"{ours}_{block}_Wo_ln_scale"] = f"{theirs}.{attention}_layer_norm.weight"
                names[f"{ours}_{block}_Wo_ln_bias"] = f"{theirs}.{attention}_layer_norm.bias"
            for part in ("1", "2"):
                names[f"{ours}_ffn_W{part}"] = f"{theirs}.fc{part}.weight"
                names[f"{ours}_ffn_b{part}"] = f"{theirs}.fc{part}.bias"
            names[f"{ours}_ffn_ffn_ln_scale"] = f"{theirs}.final_layer_norm.weight"
            names[f"{ours}_ffn_ffn_ln_bias"] = f"{theirs}.final_layer_norm.bias"
    return names


def _renamed(tensors: dict[str, _Array], config: Config, path: Path) -> dict[str, _Array]:
    """Return the tensors of Hugging Face, whose tables have a row more; raise InputError for other names."""
    names = _names(config)
    if missing := names.keys() - tensors:
        raise InputError(f"{path} is not whole: it has no {min(missing)!r}.")
    if unknown := tensors.keys() - names - _TABLES.keys() - {_OUTPUT_BIAS}:
        wanted = "must have the arrays of its architecture, and no others"
        raise InputError(f"{path} {wanted}. Received: {min(unknown)!r}.")
    renamed: dict[str, _Array] = {}
    for name, values in tensors.items():
        if name == _OUTPUT_BIAS:
            padded = np.append(values, np.float32(_PAD_BIAS))[None]
            renamed["final_logits_bias"] = padded
        elif name in _TABLES:
            rows = np.atleast_2d(values.T if name.endswith("_W") else values)
            renamed[f"{_TABLES[name]}.weight"] = np.concatenate([rows, np.zeros_like(rows[:1])])
        elif names[name].endswith(".weight") and "norm" not in names[name]:
            renamed[names[name]] = values.T
        else:  # (1, d) -> (d,)
            renamed[names[name]] = values.reshape(-1)
    renamed.setdefault("final_logits_bias", _no_bias(config))
    # In the order of rows: safetensors writes the memory as it lies.
    return {name: np.ascontiguousarray(values) for name, values in renamed.items()}


def _no_bias(config: Config) -> _Array:
    bias = np.zeros((1, config["decoder_vocab_size"]), "float32")
    bias[0, -1] = _PAD_BIAS
    return bias
