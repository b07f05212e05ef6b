"""Frames from files that other programs write: NumPy's, TensorFlow's, OpenNMT-tf's form of records."""

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data import read_frame_pairs, read_frames
from keras_transformer.errors import InputError

WINDOWS = [np.arange(3 * length, dtype="float32").reshape(length, 3) + length for length in (2, 5, 1, 4)]
TEXTS = ["two frames", "five", "", "süß\tfour"]


def padded(value: float) -> np.ndarray:
    array = np.full((len(WINDOWS), 6, 3), value)
    for row, window in zip(array, WINDOWS, strict=True):
        row[: len(window)] = window
    return array


def floats(values: np.ndarray) -> tf.train.Feature:
    return tf.train.Feature(float_list=tf.train.FloatList(value=values.ravel()))


def whole(values: object) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def text(value: str) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))


def write_directory(path: Path) -> Path:
    path.mkdir()
    for number, window in enumerate(WINDOWS):
        np.save(path / f"w{number}.npy", window)
    return path


def write_sequence_records(path: Path) -> Path:
    with tf.io.TFRecordWriter(str(path), "GZIP" if path.suffix == ".gz" else "") as writer:
        for window, target in zip(WINDOWS, TEXTS, strict=True):
            steps = tf.train.FeatureList(feature=map(floats, window))
            example = tf.train.SequenceExample(
                context=tf.train.Features(feature={"target": text(target)}),
                feature_lists=tf.train.FeatureLists(feature_list={"features": steps}),
            )
            writer.write(example.SerializeToString())
    return path


def write_records(path: Path, values: str = "values") -> Path:
    """Write what OpenNMT-tf's `write_sequence_record` writes."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for window in WINDOWS:
            fields = {"shape": whole(window.shape), values: floats(window)}
            writer.write(tf.train.Example(features=tf.train.Features(feature=fields)).SerializeToString())
    return path


def archive(**arrays: object) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        np.savez(path.with_suffix(".npz"), **arrays)
        return path.with_suffix(".npz")

    return write


TARGETS = np.array(TEXTS)
JOINED, LENGTHS = np.concatenate(WINDOWS), np.array([*map(len, WINDOWS)])
MASK = np.arange(6) < LENGTHS[:, None]
NAMED = {f"w{number}": window for number, window in enumerate(WINDOWS)}
NAMES = "".join(f"w{number}.npy\t{target}\n" for number, target in enumerate(TEXTS))
LINES = "".join(f"{target}\n" for target in TEXTS)
ORIGINS: dict[str, tuple[Callable[[Path], Path], str | None, str]] = {
    "directory": (write_directory, "targets.tsv", NAMES),
    "directory with a header": (write_directory, "targets.tsv", "file_name\ttarget\n" + NAMES),
    "archive by name": (archive(**NAMED), "targets.tsv", NAMES.replace(".npy", "")),
    "archive by line": (archive(**NAMED), "targets.txt", LINES),
    "archive with targets": (archive(**NAMED, targets=TARGETS), None, ""),
    "NaN": (archive(features=padded(np.nan), targets=TARGETS), None, ""),
    "lengths": (archive(features=padded(7.0), lengths=LENGTHS, targets=TARGETS), None, ""),
    "mask": (archive(features=padded(np.nan), padding_mask=MASK, targets=TARGETS), None, ""),
    "bytes": (archive(features=JOINED, lengths=LENGTHS, targets=np.char.encode(TARGETS)), None, ""),
    "records": (lambda path: write_records(path.with_suffix(".tfrecord")), "targets.txt", LINES),
    "sequences": (lambda path: write_sequence_records(path.with_suffix(".tfrecord.gz")), None, ""),
}


@pytest.mark.parametrize("name", ORIGINS)
def test_every_form_gives_the_same_pairs(name: str, tmp_path: Path) -> None:
    write, targets, content = ORIGINS[name]
    origin = write(tmp_path / "frames")
    if targets:
        (tmp_path / targets).write_text(content, encoding="utf-8")
    pairs = read_frame_pairs(origin, tmp_path / targets if targets else None)
    assert [target for _, target in pairs] == TEXTS
    for found in ([frames for frames, _ in pairs], read_frames(str(origin))):
        assert all(array.dtype == "float32" for array in found)
        assert [array.tolist() for array in found] == [window.tolist() for window in WINDOWS]


def test_an_array_is_several_examples_or_one(tmp_path: Path) -> None:
    np.save(tmp_path / "many.npy", padded(np.nan))
    np.save(tmp_path / "one.npy", WINDOWS[1].astype("int16"))
    assert [len(array) for array in read_frames(tmp_path / "many.npy")] == [2, 5, 1, 4]
    assert read_frames(tmp_path / "one.npy")[0].tolist() == WINDOWS[1].tolist()


def test_examples_without_a_target_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "targets.tsv").write_text("w3\tfour\nw0.npy\ttwo\n", encoding="utf-8")
    pairs = read_frame_pairs(write_directory(tmp_path / "frames"), tmp_path / "targets.tsv")
    assert [(len(frames), target) for frames, target in pairs] == [(4, "four"), (2, "two")]
    assert "2 of 4 examples have no target" in caplog.text


WRONG_TARGETS = {
    "no tab": ("targets.tsv", "w0 two\n", "targets.tsv:1: must be a name, a tab and a target"),
    "unknown": ("targets.tsv", "w0\ta\nw9\tb\n", "targets.tsv:2: .* must have 'w9'"),
    "twice": ("targets.tsv", "w0\ta\nw0.npy\tb\n", "targets.tsv:2: .* 'w0' again"),
    "no names": ("targets.txt", LINES, "must be a .tsv file"),
    "header alone": ("targets.tsv", "file\ttarget\n", "must name at least one example"),
    "nothing": (None, "", "has no targets: pass them in a separate file"),
}


@pytest.mark.parametrize("name", WRONG_TARGETS)
def test_wrong_targets_are_refused(name: str, tmp_path: Path) -> None:
    targets, content, message = WRONG_TARGETS[name]
    if targets:
        (tmp_path / targets).write_text(content, encoding="utf-8")
    origin = write_directory(tmp_path / "frames")
    with pytest.raises(InputError, match=message):
        read_frame_pairs(origin, tmp_path / targets if targets else None)


def test_lines_must_be_as_many_as_examples(tmp_path: Path) -> None:
    (tmp_path / "targets.txt").write_text("a\nb\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a line for each of the 4 examples of .* Received: 2 lines"):
        read_frame_pairs(archive(**NAMED)(tmp_path / "frames"), tmp_path / "targets.txt")


def header(shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue()


class Touch:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self._path,)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    evil = np.array([Touch(tmp_path / "touched")], object)
    np.save(tmp_path / "objects.npy", evil)
    np.savez(tmp_path / "objects.npz", features=evil)
    (tmp_path / "pickle.npy").write_bytes(pickle.dumps(Touch(tmp_path / "touched")))
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps(Touch(tmp_path / "touched")))
    for name in ("objects.npy", "objects.npz", "pickle.npy", "pickle.npz"):
        with pytest.raises(InputError, match="objects, which only unpickling reads"):
            read_frames(tmp_path / name)
    assert not (tmp_path / "touched").exists()


WRONG_ARCHIVES: dict[str, tuple[dict[str, object], str]] = {
    "width": ({"a": np.ones((2, 3)), "b": np.ones((2, 4))}, r"`b` must have the shape \(s, 3\)"),
    "NaN": ({"a": [[1.0, np.nan]], "targets": ["x"]}, "`a` must hold finite numbers.*frame 0, feature 1"),
    "rank": ({"features": JOINED}, r"\(n, s, w\), or \(m, w\) with `lengths`.*shape \(12, 3\)"),
    "sum": ({"features": JOINED, "lengths": [1, 2]}, "`lengths` must be whole numbers"),
    "too long": ({"features": padded(0), "lengths": [7, 1, 1, 1]}, "`lengths` must be whole numbers"),
    "negative": ({"features": JOINED, "lengths": [13, -1]}, "`lengths` must be whole numbers"),
    "mask": ({"features": padded(0), "padding_mask": MASK[:2]}, "`padding_mask` must be booleans"),
    "others": ({"features": padded(0), "labels": [1]}, "Received: 'labels'"),
    "path": ({"features": padded(0), "path": [1]}, "Received: 'path'"),
    "targets": ({**NAMED, "targets": TARGETS[:2]}, r"`targets` must be strings \(4,\)"),
    "numbers": ({**NAMED, "targets": LENGTHS}, r"`targets` must be strings \(4,\).*dtype=int64"),
    "no examples": ({"targets": TARGETS[:0]}, "must have frames"),
    "empty": ({"a": np.ones((0, 3)), "targets": ["x"]}, "a has no frames. Received: 1 examples"),
}


@pytest.mark.parametrize("name", WRONG_ARCHIVES)
def test_wrong_archives_are_refused(name: str, tmp_path: Path) -> None:
    arrays, message = WRONG_ARCHIVES[name]
    origin = archive(**{"targets": ["x", "y"], **arrays})(tmp_path / "frames")
    with pytest.raises(InputError, match=message):
        read_frame_pairs(origin)


def test_damaged_files_are_refused_before_their_memory_is_taken(tmp_path: Path) -> None:
    promised = header((10**12, 3)) + b"x" * 100
    (tmp_path / "promised.npy").write_bytes(promised)
    with zipfile.ZipFile(tmp_path / "promised.npz", "w") as file:
        file.writestr("a.npy", promised)
    (tmp_path / "short.npz").write_bytes(archive(**NAMED)(tmp_path / "x").read_bytes()[:300])
    for name in ("a.npy", "a.npz", "a.tfrecord", "a.tfrecord.gz"):
        (tmp_path / name).write_bytes(b"These are no frames, but some text.")
    for path in sorted(tmp_path.glob("*.*")):
        if path.name != "x.npz":
            with pytest.raises(InputError, match=f"Cannot read .*{path.name}"):
                read_frames(path)
    for missing in ("nothing.npz", "frames.wav", "frames"):
        with pytest.raises(InputError, match=r"Frames must be a directory of .npy files"):
            read_frames(tmp_path / missing)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no .npy files"):
        read_frames(tmp_path / "empty")


def test_records_of_other_fields_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"record 1: must be .* Received: 'shape', 'numbers'|'numbers', 'shape'"
    ):
        read_frames(write_records(tmp_path / "other.tfrecord", "numbers"))
