"""Read frames and their target texts from `.npy`, `.npz` and TFRecord files."""

import contextlib
import logging
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from keras_transformer._arguments import check_memory
from keras_transformer._files import as_path
from keras_transformer.data.frames import Frames, as_frames
from keras_transformer.data.text_files import FilePath, read_lines
from keras_transformer.errors import InputError

# Arrays by name, and targets by name if the file has them.
_Examples: TypeAlias = tuple[dict[str, Any], dict[str, str]]

_RECORDS = (".tfrecord", ".tfrecords", ".records")
_WANTED = f"a directory of .npy files, or a file ending in .npy, .npz or {', '.join(_RECORDS)}"
# Exceptions that NumPy and TensorFlow raise for damaged files.
_DAMAGE = (
    *(OSError, EOFError, KeyError, ValueError, RuntimeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, tf.errors.OpError),
)
# First cells of a header row.
_HEADERS = ("file", "file_name", "filename", "name", "source")

_LOGGER = logging.getLogger(__name__)


def read_frames(origin: FilePath) -> list[Frames]:
    """Read frames without targets.

    | origin | examples |
    |---|---|
    | `DIRECTORY` | its `.npy` files, an array `(s, w)` each, sorted by name |
    | `PATH.npy` | an array `(n, s, w)`, or `(s, w)` for a single example |
    | `PATH.npz` | arrays `(s, w)`, as written by `np.savez(path, *arrays)` |
    | `PATH.npz` | `features` `(n, s, w)`; padding given by `lengths` `(n,)`, `padding_mask` `(n, s)` or NaN |
    | `PATH.npz` | `features` `(m, w)`, the concatenated frames, and `lengths` `(n,)` |
    | `PATH.tfrecord` | `tf.train.SequenceExample` with a feature list `features` |
    | `PATH.tfrecord` | `tf.train.Example` with `shape` and `values`, as written by OpenNMT-tf |

    TFRecord files may be compressed (`.tfrecord.gz`). `padding_mask` is True for real frames, False for
    padding. Pickled data, such as arrays of objects, is rejected.

    Args:
        origin: A path, as in the table above.

    Returns:
        Arrays `(s, w)`, float32, without padding.

    Raises:
        InputError: If the origin cannot be read or has no frames, the widths of the arrays differ, or a value
            outside the padding is NaN or infinite.
    """
    path = as_path(origin)
    arrays, _ = _read_examples(path)
    return _named_frames(path, arrays)


def read_frame_pairs(origin: FilePath, targets: FilePath | None = None) -> list[tuple[Frames, str]]:
    """Read frames with their target texts.

    Args:
        origin: As for `read_frames`.
        targets: File with the targets. In a `.tsv` file, each line is the name of a `.npy` file or of an
            array in an `.npz` file, a tab, and the target; in other files, line n is the target of example n.
            Defaults to the targets in `origin`: an array `targets` of `n` strings in an `.npz` file, the
            context feature `target` in a TFRecord.

    Returns:
        Pairs of an array `(s, w)` and a text, in the order of the targets. Examples without a target are left
        out, and their number is logged.

    Raises:
        InputError: As for `read_frames`; or if there are no targets, a target has no frames, or the numbers
            of targets and examples differ.

    Example:
        ```python
        pairs = read_frame_pairs("windows/", "events.tsv")
        pairs = read_frame_pairs("windows.npz")
        ```
    """
    path = as_path(origin)
    arrays, texts = _read_examples(path)
    if targets is not None:
        texts = _read_targets(path, as_path(targets), [*arrays])
    elif not texts:
        raise InputError(f"{path} has no targets: pass them in a separate file. {_targets_form(path)}")
    if unused := len(arrays) - len({*texts} & {*arrays}):
        _LOGGER.warning("%s: %d of %d examples have no target, and are not read.", path, unused, len(arrays))
    checked = _named_frames(path, {name: arrays[name] for name in texts})
    if empty := [name for name, array in zip(texts, checked, strict=True) if not len(array)]:
        raise InputError(f"{path}: {empty[0]} has no frames. Received: {len(empty)} examples without frames.")
    return list(zip(checked, texts.values(), strict=True))


def _targets_form(path: Path) -> str:
    if path.is_dir():
        return "Each line of a .tsv file is the name of a .npy file, a tab, and its target."
    return "Each line is the target of an example."


def _named_frames(path: Path, arrays: dict[str, Any]) -> list[Frames]:
    """Return arrays as frames of the same width; errors name the file."""
    checked: list[Frames] = []
    width = None
    for name, array in arrays.items():
        try:
            checked += as_frames(name, [array], width)
        except (TypeError, ValueError) as error:
            raise InputError(f"{path}: {error}".replace(f"{name}[0]", name)) from error
        width = checked[-1].shape[1]
    return checked


def _read_examples(path: Path) -> _Examples:
    """Return at least one array by name, and the targets."""
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    reader = _READERS.get("" if path.is_dir() else ending)
    if reader is None or not path.exists():
        raise InputError(f"Frames must be {_WANTED}. Received: {str(path)!r}.")
    arrays, texts = reader(path)
    if not arrays:
        raise InputError(
            f"{path} must have frames. Received: no {'.npy files' if path.is_dir() else 'examples'}."
        )
    return arrays, texts


@contextlib.contextmanager
def _name_damaged_file(path: Path) -> Iterator[None]:
    """Raise errors of damaged files as `InputError`."""
    if not path.is_file():
        raise InputError(f"Cannot read {path}: no regular file.")
    try:
        yield
    except InputError:
        raise
    except _DAMAGE as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if "pickle" in reason or "Python objects" in reason:
            reason = "it must hold arrays of numbers; objects, which only unpickling reads, are not read"
        # Remove the names of the function and operation that TensorFlow adds.
        reason = re.sub(r"\{\{.*?\}\} |\s*\[Op:.*", "", reason)
        raise InputError(f"Cannot read {path}: {reason:.300}.") from error


def _load_array(path: Path) -> Any:
    # Memory-mapped, so that a header with a false size allocates no memory.
    with _name_damaged_file(path):
        return np.load(path, mmap_mode="r", allow_pickle=False)


def _read_directory(path: Path) -> _Examples:
    files = sorted(path.glob("*.npy"))
    return {file.stem: _load_array(file) for file in files}, {}


def _read_array(path: Path) -> _Examples:
    array = _load_array(path)
    return _numbered(array if array.ndim == 3 else [array]), {}


def _numbered(examples: Sequence[Any]) -> dict[str, Any]:
    return {f"example {number}": each for number, each in enumerate(examples, start=1)}


def _read_archive(path: Path) -> _Examples:
    # Opened here, because NumPy does not close a damaged file.
    with _name_damaged_file(path), path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        size = sum(member.file_size for member in archive.zip.infolist())
        check_memory(2 * size, path=path)
        arrays = {name: _without_objects(path, archive, name) for name in archive.files}
    texts = arrays.pop("targets", None)
    if "features" in arrays:
        arrays = _numbered(_split_features(path, **arrays))
    if texts is None:
        return arrays, {}
    if texts.dtype.kind not in "US" or texts.shape != (len(arrays),):
        raise InputError(
            f"{path}: `targets` must be strings ({len(arrays)},), one for each example. "
            f"Received: dtype={texts.dtype}, shape={texts.shape}."
        )
    strings = texts if texts.dtype.kind == "U" else np.char.decode(texts, "utf-8", "replace")
    return arrays, dict(zip(arrays, strings.tolist(), strict=True))


def _without_objects(path: Path, archive: Any, name: str) -> Any:
    try:
        return archive[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise InputError(
            f"{path}: `{name}` must not be an array of objects, which only unpickling reads, and that runs "
            "code of the file. Write arrays of different lengths with np.savez(path, *arrays), and texts as "
            "np.array(texts, dtype=str)."
        ) from error


def _split_features(
    path: Path, /, features: Any, lengths: Any = None, padding_mask: Any = None, **others: Any
) -> list[Any]:
    """Split a single array into the frames of each example."""
    if others:
        known = "features, lengths, padding_mask and targets"
        raise InputError(f"{path} must have {known} only. Received: {', '.join(map(repr, others))}.")
    received = f"features of shape {features.shape}"
    if lengths is not None:
        lengths = np.asarray(lengths)
        received += f", lengths of shape {lengths.shape}"
        is_whole = lengths.dtype.kind in "iu" and lengths.ndim == 1 and (lengths >= 0).all()
        if is_whole and features.ndim == 2 and lengths.sum() == len(features):
            return np.split(features, np.cumsum(lengths)[:-1])
        if (
            is_whole
            and features.ndim == 3
            and len(lengths) == len(features)
            and (max(lengths, default=0) <= features.shape[1])
        ):
            return [each[:length] for each, length in zip(features, lengths, strict=True)]
        wanted = "whole numbers (n,): of features (n, s, w) at most s, of features (m, w) m in all"
        raise InputError(f"{path}: `lengths` must be {wanted}. Received: {received}.")
    if features.ndim != 3:
        wanted = "(n, s, w), or (m, w) with `lengths`"
        raise InputError(f"{path}: `features` must have the shape {wanted}. Received: {received}.")
    if padding_mask is None:
        return [*features]
    if padding_mask.shape != features.shape[:2] or padding_mask.dtype.kind not in "biu":
        received += f", padding_mask of {padding_mask.dtype} and shape {padding_mask.shape}"
        raise InputError(f"{path}: `padding_mask` must be booleans (n, s). Received: {received}.")
    return [each[mask.astype(bool)] for each, mask in zip(features, padding_mask, strict=True)]


def _read_records(path: Path) -> _Examples:
    arrays, texts = [], []
    with _name_damaged_file(path):
        for number, record in enumerate(_iterate_records(path), start=1):
            # Parses an `Example` too: its features become the context.
            example = tf.train.SequenceExample.FromString(record)
            context = example.context.feature
            arrays.append(_record_frames(f"{path}, record {number}", example))
            if "target" in context:
                texts.append(b"".join(context["target"].bytes_list.value).decode("utf-8", "replace"))
    named = _numbered(arrays)
    if texts and len(texts) != len(arrays):
        raise InputError(f"{path}: {len(texts)} of {len(arrays)} records have a `target`.")
    return named, dict(zip(named, texts, strict=False))


def _iterate_records(path: Path) -> Iterator[bytes]:
    compression = "GZIP" if path.suffix.lower() == ".gz" else ""
    yield from tf.data.TFRecordDataset(str(path), compression).as_numpy_iterator()


def _record_frames(origin: str, example: Any) -> Any:
    lists, context = example.feature_lists.feature_list, example.context.feature
    # A single feature list may have any name.
    name = "features" if "features" in lists or len(lists) != 1 else next(iter(lists))
    if name in lists:
        rows = [_feature_values(step) for step in lists[name].feature]
        if len({*map(len, rows)}) > 1:
            raise InputError(
                f"{origin}: frames must be of one width. Received: widths {sorted({*map(len, rows)})}."
            )
        return np.array(rows, "float32") if rows else np.zeros((0, 0), "float32")
    if "values" in context and "shape" in context:
        shape = [*context["shape"].int64_list.value]
        values = np.array(_feature_values(context["values"]), "float32")
        if len(shape) != 2 or min(shape) < 0 or shape[0] * shape[1] != len(values):
            raise InputError(
                f"{origin}: `shape` must be that of `values`. Received: {shape}, {len(values)} values."
            )
        return values.reshape(shape)
    found = ", ".join(map(repr, [*lists, *context])) or "nothing"
    raise InputError(
        f"{origin}: must be a tf.train.SequenceExample with the feature list 'features', or a "
        f"tf.train.Example with 'shape' and 'values'. Received: {found}."
    )


def _feature_values(feature: Any) -> Sequence[float]:
    return feature.float_list.value or feature.int64_list.value


_READERS: dict[str, Callable[[Path], _Examples]] = {
    "": _read_directory,
    ".npy": _read_array,
    ".npz": _read_archive,
    **dict.fromkeys(_RECORDS, _read_records),
}


def _read_targets(origin: Path, path: Path, names: list[str]) -> dict[str, str]:
    """Return the targets by example name, for the examples that have one."""
    lines = read_lines(path)
    if not path.name.lower().removesuffix(".gz").endswith(".tsv"):
        if origin.is_dir():
            raise InputError(
                f"{path}: the targets of a directory must be a .tsv file. {_targets_form(origin)}"
            )
        if len(lines) != len(names):
            raise InputError(
                f"{path} must have a line for each of the {len(names):,} examples of {origin}. "
                f"Received: {len(lines):,} lines."
            )
        return dict(zip(names, lines, strict=True))
    texts: dict[str, str] = {}
    known = {*names}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or (number == 1 and line.split("\t")[0].lower() in _HEADERS):
            continue
        name, tab, text = line.partition("\t")
        name = name.removesuffix(".npy")
        if not tab:
            raise InputError(f"{path}:{number}: must be a name, a tab and a target. Received: {line!r:.100}.")
        if name not in known:
            raise InputError(
                f"{path}:{number}: {origin} must have {name!r}. Received: {names[:5]} and others."
            )
        if name in texts:
            raise InputError(f"{path}:{number}: a name must have one target. Received: {name!r} again.")
        texts[name] = text
    if not texts:
        raise InputError(f"{path} must name at least one example of {origin}. Received: {len(lines)} lines.")
    return texts
