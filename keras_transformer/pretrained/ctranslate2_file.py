"""The variables of a CTranslate2 model, read one by one from its `model.bin`."""

import math
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from keras_transformer._files import errors_named
from keras_transformer.errors import InputError

_Array: TypeAlias = npt.NDArray[np.float32]

MODEL_FILE = "model.bin"
_SPECIFICATION, _REVISION, _BINARY_VERSION = "TransformerSpec", 7, 6
# In the order of their numbers in the file, each with the type that NumPy reads.
_TYPES = {
    "float32": "<f4",
    "int8": "<i1",
    "int16": "<i2",
    "int32": "<i4",
    "float16": "<f2",
    "bfloat16": "<u2",
}
# What stands in the place of a name's ending.
_ENDINGS = {"weight": ("/weight", "/gamma", ""), "bias": ("/bias", "/beta")}
_OUTPUT_BIAS = "final_logits_bias"


class _Variable(NamedTuple):
    shape: tuple[int, ...]
    dtype: str
    offset: int


class _Variables:
    """Variables by name, with the interface of `_Tensors`; quantized ones become numbers again."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / MODEL_FILE
        with errors_named("read", self.path), self.path.open("rb") as file:
            self._table = _Header(self.path, file).variables()
        # Numbers by name: the options of the architecture. All others are weights.
        self.attributes = {
            name: self._read(name).item()
            for name, variable in self._table.items()
            if not variable.shape and name.removesuffix("_scale") not in self._table.keys() - {name}
        }
        # How many rows of each have been read.
        self._read_rows = dict.fromkeys(self._table.keys() - self.attributes.keys(), 0)

    def __contains__(self, name: str) -> bool:
        return self._found(name) is not None

    def sizes(self, name: str) -> tuple[int, int]:
        """Return rows and columns of a matrix; raise InputError if there is none."""
        shape = self._table[self._needed(name)].shape
        if len(shape) != 2 or 0 in shape:
            raise InputError(f"{self.path}: {name!r} must be a matrix. Received: the shape {shape}.")
        return shape[0], shape[1]

    def read(self, name: str, shape: tuple[int, ...]) -> _Array:
        """Return a variable, or the rows `name[first:last]` of one, in float32."""
        if name == _OUTPUT_BIAS:  # (1, v), as Marian and BART have it
            return self.read("decoder/projection.bias", shape[1:])[None]
        if name not in self and name.endswith(".bias") and f"{name.removesuffix('bias')}weight" in self:
            return np.zeros(shape, "float32")  # a linear map without one
        found, (first, last) = self._needed(name), _rows(name)
        of_all = self._table[found].shape
        received = (len(range(*slice(first, last).indices(of_all[0]))), *of_all[1:]) if of_all else ()
        if received != shape:
            raise InputError(
                f"{self.path}: {found!r} must have the shape {shape}, by the other variables. "
                f"Received: {received}."
            )
        self._read_rows[found] = max(self._read_rows[found], first + shape[0])
        return self._read(found, first, shape[0])

    def check_all_read(self) -> None:
        """Raise InputError for a variable that no part of the model has."""
        rows = {name: (*self._table[name].shape, 1)[0] for name in self._read_rows}
        self.check_none(name for name, count in self._read_rows.items() if count < rows[name])

    def check_none(self, names: Iterable[str]) -> None:
        """Raise InputError for names that stand for what no model here has."""
        if unknown := sorted(names):
            others = f" and {len(unknown) - 1} others" if len(unknown) > 1 else ""
            raise InputError(
                f"{self.path} must have the variables of an encoder-decoder that is known here, and no "
                f"others. Received: {unknown[0]!r}{others}."
            )

    @property
    def has_biases(self) -> bool:
        """Whether a linear map of a layer has a bias."""
        return any("/layer_" in name and name.endswith("/bias") for name in self._table)

    def _found(self, name: str) -> str | None:
        if name == _OUTPUT_BIAS:
            name = "decoder/projection.bias"
        base, _, ending = name.rpartition(".")
        names = [base.partition("[")[0] + each for each in _ENDINGS.get(ending, ())]
        return next((each for each in names if each in self._table), None)

    def _needed(self, name: str) -> str:
        if (found := self._found(name)) is None:
            raise InputError(f"{self.path} is not whole: it has no variable {name!r}.")
        return found

    def _read(self, name: str, first: int = 0, count: int | None = None) -> _Array:
        shape, dtype, offset = self._table[name]
        shape = shape if count is None else (count, *shape[1:])
        row_size = math.prod(shape[1:]) * np.dtype(_TYPES[dtype]).itemsize
        with errors_named("read", self.path):
            values = np.fromfile(
                self.path, _TYPES[dtype], math.prod(shape), offset=offset + first * row_size
            ).reshape(shape)
        if dtype == "bfloat16":  # the upper half of a float32
            values = (values.astype("<u4") << 16).view("<f4")
        scale = f"{name}_scale"
        if scale not in self._table:
            if shape and values.dtype.kind != "f":
                raise InputError(f"{self.path}: {name!r} must have a scale. Received: {dtype} without one.")
            return values.astype("float32", copy=False) if shape else values
        if self._table[scale].shape not in ((), self._table[name].shape[:1]):
            wanted = f"{scale!r} must have a number for each row of {self._table[name].shape}"
            raise InputError(f"{self.path}: {wanted}. Received: {self._table[scale].shape}.")
        is_of_rows = bool(self._table[scale].shape)
        factors = self._read(scale, first, count) if is_of_rows else self._read(scale)
        self._read_rows[scale] = max(self._read_rows[scale], first + len(factors)) if is_of_rows else 1
        with np.errstate(all="ignore"):  # what is not finite is found in the model
            # (rows,) -> (rows, 1)
            return np.asarray(values / factors.reshape(-1, *[1] * (len(shape) - 1)), "float32")


def _rows(name: str) -> tuple[int, int | None]:
    if "[" not in name:
        return 0, None
    first, _, last = name.partition("[")[2].partition("]")[0].partition(":")
    return int(first), int(last)


class _Header:
    """All that the file says of its variables; sizes are checked before anything is read or allocated."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self._size = path.stat().st_size

    def variables(self) -> dict[str, _Variable]:
        """Return each variable, and its aliases, by name."""
        version = self._numbers("I")[0]
        if version != _BINARY_VERSION:
            raise self._other(f"the binary version {_BINARY_VERSION}", version)
        kind, revision = self._string(), self._numbers("I")[0]
        if (kind, revision) != (_SPECIFICATION, _REVISION):
            raise self._other(f"a {_SPECIFICATION} of revision {_REVISION}", f"{kind} of revision {revision}")
        found: dict[str, _Variable] = {}
        for _ in range(self._numbers("I")[0]):
            self._add(found, self._string(), self._variable())
        for _ in range(self._numbers("I")[0]):
            alias, name = self._string(), self._string()
            if name not in found:
                raise self._damaged(f"{alias!r} stands for {name!r}, which is not there")
            self._add(found, alias, found[name])
            if f"{name}_scale" in found:
                found.setdefault(f"{alias}_scale", found[f"{name}_scale"])
        if (rest := self._size - self._file.tell()) != 0:
            raise self._damaged(f"{rest} bytes follow its end")
        return found

    def _variable(self) -> _Variable:
        shape = self._numbers(f"{self._numbers('B')[0]}I")
        number, num_bytes = self._numbers("B")[0], self._numbers("I")[0]
        if number >= len(_TYPES):
            raise self._damaged(f"{number} is the number of no type")
        dtype, offset = [*_TYPES][number], self._file.tell()
        if math.prod(shape) * np.dtype(_TYPES[dtype]).itemsize != num_bytes:
            raise self._damaged(f"{dtype} of shape {shape} has {num_bytes} bytes")
        if offset + num_bytes > self._size:
            raise self._damaged(f"it ends after {self._size} bytes")
        self._file.seek(num_bytes, 1)
        return _Variable(shape, dtype, offset)

    def _add(self, found: dict[str, _Variable], name: str, variable: _Variable) -> None:
        if name in found:
            raise self._damaged(f"{name!r} is there twice")
        found[name] = variable

    def _string(self) -> str:
        content = self._bytes(self._numbers("H")[0])
        try:
            text, end = content[:-1].decode("utf-8"), content[-1:]
        except UnicodeDecodeError as error:
            raise self._damaged(f"{content!r:.40} is no name") from error
        if end != b"\0":
            raise self._damaged(f"{content!r:.40} is no name")
        return text

    def _numbers(self, form: str) -> tuple[int, ...]:
        return struct.unpack(f"<{form}", self._bytes(struct.calcsize(f"<{form}")))

    def _bytes(self, count: int) -> bytes:
        content = self._file.read(count)
        if len(content) < count:
            raise self._damaged(f"it ends after {self._size} bytes")
        return content

    def _damaged(self, what: str) -> InputError:
        return InputError(f"{self._path} is damaged, or no model of CTranslate2: {what}.")

    def _other(self, wanted: str, received: object) -> InputError:
        return InputError(f"{self._path} must be of {wanted}. Received: {received!r}.")
