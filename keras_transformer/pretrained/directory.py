"""The files of a directory of the Hugging Face hub: tables, tensors and SentencePiece models.

Of each kind of file the same rule holds: what changes the outputs is refused by name, what does not is left
out with one line that names it.
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

# As torch and safetensors name them.
_FLOATS = ("float16", "bfloat16", "float32", "float64", "F16", "BF16", "F32", "F64")
# The weights of a model in two forms: of those on the hub only one is downloaded.
_SAFE, _PICKLED = "model.safetensors", "pytorch_model.bin"
_SMALL = ["*.json", "*.model", "*.spm", "*.txt"]
# More rows than any table of token vectors has: the table itself is larger than a graph may be.
_MAX_ROWS = 2**22
# Tensors that are added to an architecture and change its outputs.
_ADAPTERS = ("adapter", "lora_", "base_layer", "prompt_e", "prefix_tuning")


class _Directory:
    """A local directory, or a model on the hub, which is downloaded."""

    def __init__(self, source: str | Path, revision: str | None = None) -> None:
        self.path = _local(as_path(source), revision)
        if other := _foreign_kind(self.path):
            raise InputError(other)
        # A `tokenizer.json` has 20 MB, and several readers.
        self._tables: dict[str, Config] = {}
        self.config = self.table("config.json")

    def table(self, name: str, *, optional: bool = False) -> Config:
        """Read an object of JSON; return an empty one for an optional file that is not there."""
        path = self.path / name
        if name in self._tables:
            return self._tables[name]
        if optional and not path.exists():
            return {}
        content = read_file(path)
        table: Config = read_table(content, path)
        # Half of a character that has two, which no text and no other reader knows.
        if b"\\ud" in content.lower() and (place := _place_of_half(table)):
            raise InputError(f"{path} must hold Unicode text. Received: half of a character in {place!r}.")
        self._tables[name] = table
        return table

    def read(self, name: str, kind: type[_Kind], *, optional: bool = False) -> _Kind:
        """Read an object of JSON as a class of typed fields, without names that it does not have."""
        return _typed(self.table(name, optional=optional), self.path / name, kind)

    def vocabulary(self, name: str) -> list[str]:
        """Read the pieces of a vocabulary in the order of their ids."""
        return self.ordered(self.path / name, self.table(name))

    @staticmethod
    def ordered(path: Path, numbers: object) -> list[str]:
        """Return pieces in the order of their ids."""
        numbers = numbers if isinstance(numbers, dict) else {}
        by_number = {number: piece for piece, number in numbers.items() if type(number) is int}
        for number in range(len(numbers)):
            if number not in by_number:
                wanted = f"the ids of the vocabulary must be 0 to {len(numbers) - 1}, each once"
                raise InputError(f"{path}: {wanted}. Received: no token for {number}.")
        return [by_number[number] for number in range(len(numbers))]

    def sentence_piece(self, name: str, first: Sequence[str] = ()) -> tuple[str, list[str]]:
        """Read a SentencePiece model, in Base64, and its pieces, which must start with some."""
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
        """Find the tensors of the weights, whose names begin with `prefix`."""
        return _Tensors(self.path, prefix)


def _typed(table: Config, path: Path, kind: type[_Kind]) -> _Kind:
    of_any: Any = kind  # the types of dataclasses know no such variable
    names = {field.name for field in dataclasses.fields(of_any)}
    given = {name: value for name, value in table.items() if name in names and value is not None}
    result: _Kind = read_table(json.dumps(given).encode(), path, kind)
    return result


def _place_of_half(value: object, place: str = "") -> str:
    """Return where text is that cannot be written, as `config.name`; empty if there is none."""
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
        if found := _place_of_half(str(name), inner) or _place_of_half(each, inner):
            return found
    return ""


def _left_out(path: Path, values: Iterable[str]) -> None:
    """Name in one line what a file holds and no output depends on."""
    if given := [*values]:
        others = f" and {len(given) - 8} others" if len(given) > 8 else ""
        _LOGGER.warning(
            "%s: left out, since outputs do not depend on it: %s", path, ", ".join(given[:8]) + others
        )


@dataclasses.dataclass(frozen=True)
class _Tensor:
    """A tensor of a file, as its header describes it."""

    path: Path
    shape: tuple[int, ...]
    dtype: str
    load: Callable[[], Tensor]


class _Tensors:
    """Tensors by name, read one by one, so that memory holds the model and one of them."""

    def __init__(self, directory: Path, prefix: str) -> None:
        self._directory = directory
        self._tensors = {
            _renamed(name): each for path in _weight_files(directory) for name, each in _headers(path)
        }
        if not any(name.startswith(prefix) for name in self._tensors):
            # Saved as the model without the layer that makes logits.
            self._tensors = {prefix + name: each for name, each in self._tensors.items()}
        self._unread = {*self._tensors}

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a tensor, by the header of its file; None if it is not there."""
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
        """Name the tensors that no part of the model has; raise InputError for those of an adapter."""
        others = sorted(self._unread - {*known})
        for name in others:
            if any(part in name for part in _ADAPTERS):
                raise InputError(
                    f"{self._directory} must have the tensors of its architecture, of adapters no others. "
                    f"Received: {name!r}. Merge an adapter into the weights before it is imported."
                )
        _left_out(self._directory, map(repr, others))


def _renamed(name: str) -> str:
    """Return the name of today; normalizations of BERT that came from TensorFlow have older ones."""
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
    # As `ORGANIZATION/NAME`; anything else is a path that is not there.
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
    # Of the network, of its library, or of the disk: of many classes.
    except Exception as error:
        message = " ".join(str(error).split())
        raise InputError(f"{path} is no directory, and cannot be downloaded: {message:.300}") from error


def _downloaded(hub: Any, name: str, revision: str | None) -> Path:
    """Download the small files, and the weights once: a pickle only if there are no safetensors."""
    for weights in (_SAFE, _PICKLED):
        stem, suffix = weights.split(".")
        patterns = [*_SMALL, weights, f"{stem}-*.{suffix}"]
        path = Path(hub.snapshot_download(name, revision=revision, allow_patterns=patterns))
        if any(path.glob(f"{stem}*.{suffix}")):
            break
    return path


def _weight_files(directory: Path) -> Iterator[Path]:
    """Yield the files of weights; safetensors come before a pickle, whole files before parts."""
    for name in (_SAFE, _PICKLED):
        if (directory / name).is_file():
            yield directory / name
            return
        index = directory / f"{name}.index.json"
        if index.is_file():
            table = read_table(read_file(index), index).get("weight_map")
            parts = set(map(str, table.values())) if isinstance(table, dict) else {""}
            # A name, no path: an index must not reach out of its directory.
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
    """Yield the name of each tensor of a file, and its header."""
    if not path.is_file():
        raise InputError(f"{path.parent} is not whole: it has no {path.name}.")
    if path.suffix != ".safetensors":
        for name, tensor in _read_pickle(path).items():
            # An entry of few bytes may say that it is repeated.
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
    # Opened for each: what is mapped counts as memory of the process for as long as it is open.
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
    """Read a pickle, which may hold any program, only as tensors, and mapped if its format has that."""
    torch = import_extra("torch", f"{path} is a pickle, and without model.safetensors reading it", "torch")
    # Since torch 1.6 it is a ZIP file, of entries as they are: a packed one may be of any size.
    is_zip = zipfile.is_zipfile(path)
    if is_zip:
        with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as file:
            for entry in file.infolist():
                if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > path.stat().st_size:
                    received = f"{entry.filename!r} of {entry.file_size} bytes, packed"
                    raise InputError(f"{path} must have entries that are not packed. Received: {received}.")
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    # An error of one of many classes; `weights_only` runs nothing of the file.
    except Exception as error:
        raise InputError(f"{path} is damaged, or holds more than tensors: {error!r:.200}.") from error
    if not isinstance(tensors, dict) or not all(map(torch.is_tensor, tensors.values())):
        received = reprlib.repr([*tensors]) if isinstance(tensors, dict) else type(tensors).__name__
        raise InputError(f"{path} must hold tensors by name. Received: {received}.")
    return tensors
