"""The files of a directory of the Hugging Face hub: tables, tensors and SentencePiece models."""

import base64
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from keras_transformer._arguments import import_extra
from keras_transformer._files import as_path, read_file, read_table
from keras_transformer.errors import InputError
from keras_transformer.types import Config, Tensor

_Array: TypeAlias = npt.NDArray[np.float32]
_Loader: TypeAlias = Callable[[], Tensor]
# By name: Keras registers bfloat16 with NumPy.
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_SAFE, _PICKLED = "model.safetensors", "pytorch_model.bin"
# What a model on the hub has besides, in other formats: each is as large as the weights.
_NOT_DOWNLOADED = ["*.h5", "*.msgpack", "*.ot", "*.onnx", "*.tflite", "*.gguf", "onnx/*", "openvino/*"]


class _Directory:
    """A local directory, or a model on the hub, which is downloaded."""

    def __init__(self, source: str | Path) -> None:
        self.path = _local(as_path(source))
        self.settings_path = self.path / "tokenizer_config.json"
        self.config = self.table("config.json")
        self.settings = self.table(self.settings_path.name, optional=True)

    def table(self, name: str, *, optional: bool = False) -> Config:
        """Read an object of JSON; return an empty one for an optional file that is not there."""
        path = self.path / name
        if optional and not path.exists():
            return {}
        table: Config = read_table(read_file(path), path)
        return table

    def setting(self, name: str, default: int) -> int:
        """Return a whole number of the tokenizer's settings."""
        value = self.settings.get(name, default)
        if type(value) is not int or value < 0:
            raise InputError(f"{self.settings_path}: {name} must be a number. Received: {value!r}.")
        return value

    def vocabulary(self, name: str) -> list[str]:
        """Read the pieces of a vocabulary in the order of their ids."""
        return self.ordered(self.path / name, self.table(name))

    @staticmethod
    def ordered(path: Path, numbers: object) -> list[str]:
        """Return pieces in the order of their ids."""
        numbers = numbers if isinstance(numbers, dict) else {}
        by_number = {number: piece for piece, number in numbers.items()}
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

    def tensors(self) -> "_Tensors":
        """Find the tensors of the weights."""
        return _Tensors(self.path)


class _Tensors:
    """Tensors by name, read one by one, so that memory holds the model and one of them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._loaders = {name: each for path in _weight_files(directory) for name, each in _loaders(path)}
        self._unread = {*self._loaders}

    def __contains__(self, name: str) -> bool:
        return name in self._loaders

    def read(self, name: str, shape: tuple[int, ...]) -> _Array:
        """Return a tensor in float32."""
        if name not in self:
            raise InputError(f"{self._directory} is not whole: it has no tensor {name!r}.")
        path, load = self._loaders[name]
        tensor = load()
        if tensor.dtype.name not in _FLOATS or tensor.shape != shape:
            raise InputError(
                f"{path}: {name!r} must have numbers of the shape {shape}, by the configuration. "
                f"Received: {tensor.dtype} of shape {tensor.shape}."
            )
        self._unread.discard(name)
        return tensor.astype("float32", copy=False)

    def check_all_read(self) -> None:
        """Raise InputError for a tensor that no part of the model has."""
        if self._unread:
            others = f" and {len(self._unread) - 1} others" if len(self._unread) > 1 else ""
            raise InputError(
                f"{self._directory} must have the tensors of its architecture, and no others. "
                f"Received: {min(self._unread)!r}{others}."
            )


def _local(path: Path) -> Path:
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
                raise InputError(f"{index} must name the file of each tensor. Received: {table!r:.80}.")
            yield from (directory / part for part in sorted(parts))
            return
    raise InputError(f"{directory} has no weights: it must have {_SAFE} or {_PICKLED}, or their index.")


def _loaders(path: Path) -> Iterator[tuple[str, tuple[Path, _Loader]]]:
    """Yield the name of each tensor of a file, and what reads it."""
    if not path.is_file():
        raise InputError(f"{path.parent} is not whole: it has no {path.name}.")
    if path.suffix == ".safetensors":
        with _opened(path) as file:
            names, load = [*file.keys()], _safe
    else:
        names, load = [*_opened_pickle(path)], _pickled
    yield from ((name, (path, partial(load, path, name))) for name in names)


def _safe(path: Path, name: str) -> Tensor:
    # Opened for each: what is mapped counts as memory of the process for as long as it is open.
    with _opened(path) as file:
        return file.get_tensor(name)


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, "numpy")
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is damaged, or no safetensors: {error}.") from error


def _pickled(path: Path, name: str) -> Tensor:
    return _opened_pickle(path)[name].float().numpy()


def _opened_pickle(path: Path) -> dict[str, Tensor]:
    """Read a pickle, which may hold any program, only as tensors, and mapped."""
    torch = import_extra("torch", f"{path} is a pickle, and without model.safetensors reading it", "torch")
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    # An error of one of many classes; `weights_only` runs nothing of the file.
    except Exception as error:
        raise InputError(f"{path} is damaged, or holds more than tensors: {error!r:.200}.") from error
    if not isinstance(tensors, dict) or not all(map(torch.is_tensor, tensors.values())):
        raise InputError(f"{path} must hold tensors by name. Received: {type(tensors).__name__}.")
    return tensors
