"""The tensors of a checkpoint, read one by one, so that memory holds the model and one of them."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from keras_transformer._arguments import import_extra
from keras_transformer._files import read_file, read_table
from keras_transformer.errors import InputError
from keras_transformer.types import Tensor

_Array: TypeAlias = npt.NDArray[np.float32]
_Loader: TypeAlias = Callable[[], Tensor]
# By name: Keras registers bfloat16 with NumPy.
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_SAFE, _PICKLED = "model.safetensors", "pytorch_model.bin"


class _Tensors:
    """Tensors by name; what nobody has asked for is told at the end."""

    def __init__(self, origin: Path | str, loaders: Mapping[str, tuple[Path | str, _Loader]]) -> None:
        self._origin, self._loaders, self._unread = origin, loaders, {*loaders}

    def __contains__(self, name: str) -> bool:
        return name in self._loaders

    def read(self, name: str, shape: tuple[int, ...]) -> _Array:
        """Return a tensor in float32."""
        if name not in self:
            raise InputError(f"{self._origin} is not whole: it has no tensor {name!r}.")
        place, load = self._loaders[name]
        tensor = load()
        if tensor.dtype.name not in _FLOATS or tensor.shape != shape:
            raise InputError(
                f"{place}: {name!r} must have numbers of the shape {shape}, by the configuration. "
                f"Received: {tensor.dtype} of shape {tensor.shape}."
            )
        self._unread.discard(name)
        return tensor.astype("float32", copy=False)

    def check_all_read(self) -> None:
        """Raise InputError for a tensor that no part of the model has."""
        if self._unread:
            others = f" and {len(self._unread) - 1} others" if len(self._unread) > 1 else ""
            raise InputError(
                f"{self._origin} must have the tensors of its architecture, and no others. "
                f"Received: {min(self._unread)!r}{others}."
            )


def _tensors_of_directory(directory: Path) -> _Tensors:
    loaders = {name: each for path in _files(directory) for name, each in _loaders(path).items()}
    return _Tensors(directory, loaders)


def _loaders(path: Path) -> dict[str, tuple[Path | str, _Loader]]:
    """Return what reads each tensor of a file."""
    if not path.is_file():
        raise InputError(f"{path.parent} is not whole: it has no {path.name}.")
    if path.suffix != ".safetensors":
        return {name: (path, partial(_pickled, path, name)) for name in _opened_pickle(path)}
    with _opened(path) as file:
        return {name: (path, partial(_safe, path, name)) for name in [*file.keys()]}


def _files(directory: Path) -> Iterator[Path]:
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


def _safe(path: Path, name: str) -> Tensor:
    # Opened for each: what is mapped counts as memory of the process for as long as it is open.
    with _opened(path) as file:
        return file.get_tensor(name)


def _opened(path: Path) -> safe_open:
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
