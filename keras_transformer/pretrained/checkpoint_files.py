"""The tensors of a checkpoint, read one by one, so that memory holds the model and one of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from keras_transformer.arguments import _package
from keras_transformer.errors import InputError
from keras_transformer.files import read_file, read_table
from keras_transformer.types import Tensor

_Array: TypeAlias = npt.NDArray[np.float32]
# By name: Keras registers bfloat16 with NumPy.
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_SAFE, _PICKLED = "model.safetensors", "pytorch_model.bin"


class _Tensors:
    """Tensors by name; what nobody has asked for is told at the end."""

    def __init__(self, directory: Path) -> None:
        self._files = {name: path for path, names in _listed(directory) for name in names}
        self._unread = set(self._files)
        self._directory = directory

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def read(self, name: str, shape: tuple[int, ...]) -> _Array:
        """Return a tensor in float32."""
        if name not in self._files:
            raise InputError(f"{self._directory} is not whole: it has no tensor {name!r}.")
        path = self._files[name]
        tensor = _pickled(path)[name].float().numpy() if path.suffix == ".bin" else _safe(path, name)
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


def _listed(directory: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield each file with its tensors; safetensors come before a pickle, whole files before parts."""
    for name in (_SAFE, _PICKLED):
        if (directory / name).is_file():
            yield directory / name, _names(directory / name)
            return
        index = directory / f"{name}.index.json"
        if index.is_file():
            table = read_table(read_file(index), index).get("weight_map")
            parts = set(map(str, table.values())) if isinstance(table, dict) else {""}
            # A name, no path: an index must not reach out of its directory.
            if not all(part and Path(part).name == part for part in parts):
                raise InputError(f"{index} must name the file of each tensor. Received: {table!r:.80}.")
            for part in sorted(parts):
                yield directory / part, _names(directory / part)
            return
    raise InputError(f"{directory} has no weights: it must have {_SAFE} or {_PICKLED}, or their index.")


def _names(path: Path) -> list[str]:
    if not path.is_file():
        raise InputError(f"{path.parent} is not whole: it has no {path.name}.")
    if path.suffix == ".bin":
        return list(_pickled(path))
    with _opened(path) as file:
        return list(file.keys())


def _safe(path: Path, name: str) -> Tensor:
    # Opened for each: what is mapped counts as memory of the process for as long as it is open.
    with _opened(path) as file:
        return file.get_tensor(name)


def _opened(path: Path) -> safe_open:
    try:
        return safe_open(path, "numpy")
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is damaged, or no safetensors: {error}.") from error


def _pickled(path: Path) -> dict[str, Tensor]:
    """Read a pickle, which may hold any program, only as tensors, and mapped."""
    torch = _package("torch", f"{path} is a pickle, and without model.safetensors reading it", "torch")
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    # An error of one of many classes; `weights_only` runs nothing of the file.
    except Exception as error:
        raise InputError(f"{path} is damaged, or holds more than tensors: {error!r:.200}.") from error
    if not isinstance(tensors, dict) or not all(map(torch.is_tensor, tensors.values())):
        raise InputError(f"{path} must hold tensors by name. Received: {type(tensors).__name__}.")
    return tensors
