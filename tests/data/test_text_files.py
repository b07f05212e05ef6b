import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from keras_transformer.data import ParallelText, read_lines, read_pairs
from keras_transformer.errors import InputError

MULTI30K = Path(__file__).parents[2].parent / "shared" / "data" / "multi30k"


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["x.txt", "x.txt.gz"])
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\xef\xbb\xbfa\n\nb\n", ["a", "", "b"]),
        ("ü\u2028\x0b\x0c\u0085ß\n".encode(), ["ü\u2028\x0b\x0c\u0085ß"]),
        (b"\n", [""]),
    ],
)
def test_reads_lines(tmp_path: Path, name: str, content: bytes, lines: list[str]) -> None:
    assert read_lines(write(tmp_path / name, content)) == lines


def test_accepts_a_string_as_path(tmp_path: Path) -> None:
    assert read_lines(str(write(tmp_path / "x", b"a"))) == ["a"]


def test_reads_pairs_from_plain_and_gz(tmp_path: Path) -> None:
    source = write(tmp_path / "x.en.gz", b"a dog\n\na cat\n")
    target = write(tmp_path / "x.de", b"ein Hund\nleer\neine Katze\n")
    assert read_pairs((source, target)) == [("a dog", "ein Hund"), ("a cat", "eine Katze")]


def assert_fault(path: Path, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        read_lines(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_missing_file(tmp_path: Path) -> None:
    assert_fault(tmp_path / "none.txt", "No such file")


def test_directory(tmp_path: Path) -> None:
    assert_fault(tmp_path, "Is a directory")


@pytest.mark.parametrize("name", ["x.txt", "x.txt.gz"])
@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
def test_empty_file(tmp_path: Path, name: str, content: bytes) -> None:
    assert_fault(write(tmp_path / name, content), "the file is empty")


def test_empty_file_that_should_be_gz(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.touch()
    assert_fault(path, "the file is empty")


@pytest.mark.parametrize("name", ["x.txt", "x.txt.gz"])
def test_invalid_utf8_with_its_place(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "gut\nö".encode() + b"\xff\nx\n")
    assert_fault(path, rf"{name}:2:3: not valid UTF-8. Received: byte 0xff\.")


def test_gz_that_is_plain(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(b"plain text")
    assert_fault(path, "damaged gzip data.*Not a gzipped file")


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:10] + b"\xff" + data[11:]])
def test_damaged_gz(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(damage(gzip.compress(b"some text\n" * 20)))
    assert_fault(path, "damaged gzip data")


def test_different_numbers_of_lines(tmp_path: Path) -> None:
    source, target = write(tmp_path / "x.en", b"a\nb\nc\n"), write(tmp_path / "x.de", b"a\nb\n")
    with pytest.raises(InputError, match=rf"same number of lines. Received: 3 in {source}, 2 in {target}\."):
        read_pairs((source, target))


def test_parallel_text_is_read_again_in_each_iteration(tmp_path: Path) -> None:
    source, target = write(tmp_path / "x.en", b"a\n\n"), write(tmp_path / "x.de.gz", b"A\nB\n")
    text = ParallelText(source, target)
    assert list(text) == list(text) == [("a", "A"), ("", "B")]
    target.write_bytes(gzip.compress(b"A\n"))
    with pytest.raises(InputError, match=rf"Received: 2 in {source}, 1 in {target}\."):
        list(text)


def test_parallel_text_needs_two_files(tmp_path: Path) -> None:
    path = write(tmp_path / "x.en", b"a\n")
    with pytest.raises(InputError, match=rf"Cannot read {tmp_path}/none: no such file\."):
        ParallelText(path, tmp_path / "none")
    with pytest.raises(InputError, match=rf"Cannot read {tmp_path}: no regular file"):
        ParallelText(tmp_path, path)


def test_nothing_but_blank_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "x", b"\n\n")
    with pytest.raises(InputError, match=r"No pair of .* has text on both sides. Received: 2 pairs\."):
        read_pairs((path, path))


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="needs ../shared/data/multi30k")
def test_multi30k() -> None:
    pairs = read_pairs((MULTI30K / "val.en.gz", MULTI30K / "val.de.gz"))
    assert len(pairs) == 1014
    assert pairs[0][0].startswith("A group of men are loading cotton")
    assert pairs[0][1].startswith("Eine Gruppe von Männern lädt Baumwolle")
