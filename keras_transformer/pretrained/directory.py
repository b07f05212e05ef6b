"""Files of a Hugging Face model: JSON tables, tensors and SentencePiece models.

The same rule holds for all files: an unsupported setting that changes outputs is an error that names it;
one that does not is logged and ignored.
"""

import base64
import contextlib
import dataclasses
import difflib
import json
import logging
import reprlib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from keras_transformer._arguments import import_extra
from keras_transformer._files import as_path, read_file, read_table
from keras_transformer.errors import InputError
from keras_transformer.pretrained.foreign import _foreign_kind
from keras_transformer.types import Config, Tensor

_Kind = TypeVar("_Kind")
_Array: TypeAlias = npt.NDArray[np.float32]
_LOGGER = logging.getLogger(__name__)

# Names in torch and in safetensors.
_FLOATS = ("float16", "bfloat16", "float32", "float64", "F16", "BF16", "F32", "F64")
# Two formats of the weights; only one is downloaded from the Hub.
_SAFE, _PICKLED = "model.safetensors", "pytorch_model.bin"
_SMALL = ["*.json", "*.model", "*.spm", "*.txt"]
# Upper bound of embedding rows; a larger table would not fit into a TensorFlow graph.
_MAX_ROWS = 2**22
# Parts of tensor names that belong to adapters, which change outputs.
_ADAPTERS = ("adapter", "lora_", "base_layer", "prompt_e", "prefix_tuning")


class _Directory:
    """A local directory, or a model on the Hub, which is downloaded."""

    def __init__(self, source: str | Path, revision: str | None = None) -> None:
        self.path = _local(as_path(source), revision)
        if other := _foreign_kind(self.path):
            raise InputError(other)
        # Cache tables: `tokenizer.json` has 20 MB and is read several times.
        self._tables: dict[str, Config] = {}
        self.config = self.table("config.json")

    def table(self, name: str, *, optional: bool = False) -> Config:
        """Read a JSON object; return an empty one if an optional file is missing."""
        path = self.path / name
        if name in self._tables:
            return self._tables[name]
        if optional and not path.exists():
            return {}
        content = read_file(path)
        table: Config = read_table(content, path)
        # A lone surrogate is not valid text.
        if b"\\ud" in content.lower() and (place := _lone_surrogate_path(table)):
            raise InputError(f"{path} must hold Unicode text. Received: half of a character in {place!r}.")
        self._tables[name] = table
        return table

    def read(self, name: str, kind: type[_Kind], *, optional: bool = False) -> _Kind:
        """Read a JSON object as a dataclass; other names are ignored."""
        return _typed(self.table(name, optional=optional), self.path / name, kind)

    def vocabulary(self, name: str) -> list[str]:
        """Read the tokens of a vocabulary, ordered by id."""
        return self.ordered(self.path / name, self.table(name))

    @staticmethod
    def ordered(path: Path, numbers: object) -> list[str]:
        """Return tokens ordered by id."""
        numbers = numbers if isinstance(numbers, dict) else {}
        by_number = {number: piece for piece, number in numbers.items() if type(number) is int}
        for number in range(len(numbers)):
            if number not in by_number:
                wanted = f"the ids of the vocabulary must be 0 to {len(numbers) - 1}, each once"
                raise InputError(f"{path}: {wanted}. Received: no token for {number}.")
        return [by_number[number] for number in range(len(numbers))]

    def sentence_piece(self, name: str, first: Sequence[str] = ()) -> tuple[str, list[str]]:
        """Read a SentencePiece model: its Base64 and its pieces, which must start with `first`."""
        from sentencepiece import SentencePieceProcessor

        path = self.path / name
        proto = read_file(path)
        try:
            model = SentencePieceProcessor(model_proto=proto)
        except RuntimeError as error:
            received = f"{len(proto)} bytes starting with {proto[:16]!r}"
            raise InputError(f"{path} must be a SentencePiece model. Received: {received}.") from error
        pieces = [model.id_to_piece(number) for number in range(model.get_piece_size())]
        if pieces[: len(first)] != [*first]:
            raise InputError(f"{path} must start with {[*first]}. Received: {pieces[: len(first)]}.")
        return base64.b64encode(proto).decode(), pieces

    def tensors(self, prefix: str) -> "_Tensors":
        """Find the weight tensors, whose names start with `prefix`."""
        return _Tensors(self.path, prefix)


def _typed(table: Config, path: Path, kind: type[_Kind]) -> _Kind:
    of_any: Any = kind  # dataclasses have no type for this
    names = {field.name for field in dataclasses.fields(of_any)}
    given = {name: value for name, value in table.items() if name in names and value is not None}
    result: _Kind = read_table(json.dumps(given).encode(), path, kind)
    return result


def _lone_surrogate_path(value: object, place: str = "") -> str:
    """Return the path of a lone surrogate, such as `config.name`; empty if there is none."""
    if isinstance(value, str):
        return place if any("\ud800" <= letter <= "\udfff" for letter in value) else ""
    pairs = (
        [*value.items()]
        if isinstance(value, dict)
        else [*enumerate(value)]
        if isinstance(value, list)
        else []
    )
    for name, each in pairs:
        inner = f"{place}.{name!a}" if place else ascii(name)
        if found := _lone_surrogate_path(str(name), inner) or _lone_surrogate_path(each, inner):
            return found
    return ""


def _left_out(path: Path, values: Iterable[str]) -> None:
    """Log in one line the ignored settings of a file."""
    if given := [*values]:
        others = f" and {len(given) - 8} others" if len(given) > 8 else ""
        _LOGGER.warning(
            "%s: left out, since outputs do not depend on it: %s", path, ", ".join(given[:8]) + others
        )


@dataclasses.dataclass(frozen=True)
class _Tensor:
    """Header of a tensor, and a function that loads it."""

    path: Path
    shape: tuple[int, ...]
    dtype: str
    load: Callable[[], Tensor]


class _Tensors:
    """Tensors by name, loaded one at a time to limit memory."""

    def __init__(self, directory: Path, prefix: str) -> None:
        self._directory = directory
        self._tensors = {
            _renamed(name): each for path in _weight_files(directory) for name, each in _headers(path)
        }
        if not any(name.startswith(prefix) for name in self._tensors):
            # The model was saved without its logits layer.
            self._tensors = {prefix + name: each for name, each in self._tensors.items()}
        self._unread = {*self._tensors}

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a tensor from its header; None if it is missing."""
        return self._tensors[name].shape if name in self else None

    def read(self, name: str, shape: tuple[int, ...]) -> _Array:
        """Return a tensor in float32."""
        if name not in self:
            raise InputError(f"{self._directory} is not whole: it has no tensor {name!r}.")
        tensor = self._tensors[name]
        if tensor.dtype not in _FLOATS or tensor.shape != shape:
            raise InputError(
                f"{tensor.path}: {name!r} must have numbers of the shape {shape}, by the configuration. "
                f"Received: {tensor.dtype} of shape {tensor.shape}."
            )
        self._unread.discard(name)
        return tensor.load().astype("float32", copy=False)

    def leave_out_others(self, known: Iterable[str] = ()) -> None:
        """Log the unused tensors; raise InputError for those of an adapter."""
        others = sorted(self._unread - {*known})
        for name in others:
            if any(part in name for part in _ADAPTERS):
                raise InputError(
                    f"{self._directory} must have the tensors of its architecture, of adapters no others. "
                    f"Received: {name!r}. Merge an adapter into the weights before it is imported."
                )
        _left_out(self._directory, map(repr, others))


def _renamed(name: str) -> str:
    """Return the current name of a tensor; BERT models converted from TensorFlow have older names."""
    owner, _, last = name.rpartition(".")
    new = {"gamma": "weight", "beta": "bias"}.get(last)
    return f"{owner}.{new}" if new and owner else name


def _local(path: Path, revision: str | None) -> Path:
    if path.is_dir() and revision is None:
        return path
    if path.exists():
        wanted = "is on the disk, and only a model on the hub has revisions" if path.is_dir() else ""
        wanted = wanted or f"is a file; the model is its directory, {path.parent}"
        raise InputError(f"{path} {wanted}. Received: revision={revision!r}.")
    # A Hub name is ORGANIZATION/NAME; anything else is a missing path.
    is_name = not path.is_absolute() and len(path.parts) == 2 and path.parts[0] not in (".", "..", "~")
    if not is_name or path.parent.is_dir():
        near = next(parent for parent in (path.parent, *path.parents) if parent.is_dir())
        names = [each.name for each in near.iterdir() if each.is_dir()] if near == path.parent else []
        close = [str(near / name) for name in difflib.get_close_matches(path.name, names)]
        hint = f"; there is {' and '.join(close)}" if close else ""
        raise InputError(
            f"{path} must be a directory, or the name of a model on the hub, as ORGANIZATION/NAME{hint}. "
            "Received: neither."
        )
    hub = import_extra("huggingface_hub", f"{path} is no directory, and to download a model", "hugging_face")
    try:
        return _downloaded(hub, path.as_posix(), revision)
    # Network, library and disk raise many kinds of errors.
    except Exception as error:
        message = " ".join(str(error).split())
        raise InputError(f"{path} is no directory, and cannot be downloaded: {message:.300}") from error


def _downloaded(hub: Any, name: str, revision: str | None) -> Path:
    """Download the small files and one format of the weights: safetensors, else pickle."""
    for weights in (_SAFE, _PICKLED):
        stem, suffix = weights.split(".")
        patterns = [*_SMALL, weights, f"{stem}-*.{suffix}"]
        path = Path(hub.snapshot_download(name, revision=revision, allow_patterns=patterns))
        if any(path.glob(f"{stem}*.{suffix}")):
            break
    return path


def _weight_files(directory: Path) -> Iterator[Path]:
    """Yield the weight files: safetensors before pickle, a single file before shards."""
    for name in (_SAFE, _PICKLED):
        if (directory / name).is_file():
            yield directory / name
            return
        index = directory / f"{name}.index.json"
        if index.is_file():
            table = read_table(read_file(index), index).get("weight_map")
            parts = set(map(str, table.values())) if isinstance(table, dict) else {""}
            # Only file names: an index must not point outside its directory.
            if not all(part and Path(part).name == part for part in parts):
                received = reprlib.repr(table)
                raise InputError(
                    f"{index}: `weight_map` must name the file of each tensor. Received: {received}."
                )
            yield from (directory / part for part in sorted(parts))
            return
    raise InputError(
        f"{directory} has no weights: it must have {_SAFE} or {_PICKLED}, or their index. Weights of "
        "TensorFlow (tf_model.h5), Flax or Rust are converted by transformers before version 5: "
        f"`from_pretrained(..., from_tf=True).save_pretrained(...)`. Received: {_names(directory)}."
    )


def _names(directory: Path) -> str:
    return ", ".join(sorted(path.name for path in directory.iterdir())[:12]) or "an empty directory"


def _headers(path: Path) -> Iterator[tuple[str, _Tensor]]:
    """Yield the name and the header of each tensor in a file."""
    if not path.is_file():
        raise InputError(f"{path.parent} is not whole: it has no {path.name}.")
    if path.suffix != ".safetensors":
        for name, tensor in _read_pickle(path).items():
            # A small entry may be expanded to a huge tensor (stride 0).
            if tensor.numel() * tensor.element_size() > path.stat().st_size:
                received = f"the shape {tuple(tensor.shape)} in a file of {path.stat().st_size} bytes"
                raise InputError(f"{path}: {name!r} must be whole. Received: {received}.")
            dtype = str(tensor.dtype).removeprefix("torch.")
            yield name, _Tensor(path, tuple(tensor.shape), dtype, partial(_as_array, tensor))
        return
    with _opened(path) as file:
        for name in sorted(file.keys()):
            header = file.get_slice(name)
            yield (
                name,
                _Tensor(path, tuple(header.get_shape()), header.get_dtype(), partial(_safe, path, name)),
            )


def _safe(path: Path, name: str) -> Tensor:
    # Reopened for each tensor: mapped memory counts as used while the file is open.
    with _opened(path) as file:
        return file.get_tensor(name)


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, "numpy")
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is damaged, or no safetensors: {error}.") from error


def _as_array(tensor: Tensor) -> Tensor:
    return tensor.detach().float().numpy()


def _read_pickle(path: Path) -> dict[str, Tensor]:
    """Load only the tensors of a pickle with torch, memory-mapped if possible; its code never runs."""
    torch = import_extra("torch", f"{path} is a pickle, and without model.safetensors reading it", "torch")
    # Since torch 1.6 it is an uncompressed ZIP file; a compressed entry could expand to any size.
    is_zip = zipfile.is_zipfile(path)
    if is_zip:
        with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as file:
            for entry in file.infolist():
                if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > path.stat().st_size:
                    received = f"{entry.filename!r} of {entry.file_size} bytes, packed"
                    raise InputError(f"{path} must have entries that are not packed. Received: {received}.")
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    # Many kinds of errors; with `weights_only` no code of the file runs.
    except Exception as error:
        raise InputError(f"{path} is damaged, or holds more than tensors: {error!r:.200}.") from error
    if not isinstance(tensors, dict) or not all(map(torch.is_tensor, tensors.values())):
        received = reprlib.repr([*tensors]) if isinstance(tensors, dict) else type(tensors).__name__
        raise InputError(f"{path} must hold tensors by name. Received: {received}.")
    return tensors
