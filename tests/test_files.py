import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from keras_transformer.errors import InputError
from keras_transformer.files import file_sha256, move_file, read_file, remove_stale, write_file


def test_written_file_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_file(path, b"first")
    write_file(path, b"second")
    assert read_file(path) == b"second"
    assert list(path.parent.iterdir()) == [path]


def test_threads_write_one_file_in_turn(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: write_file(tmp_path / "a", b"%d" % number * 999), range(100)))
    assert (tmp_path / "a").read_bytes() in [b"%d" % number * 999 for number in range(100)]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_written_file_has_ordinary_permissions(tmp_path: Path) -> None:
    ordinary = tmp_path / "ordinary"
    ordinary.write_bytes(b"x")
    write_file(tmp_path / "file", b"x")
    assert (tmp_path / "file").stat().st_mode == ordinary.stat().st_mode


def test_only_what_is_old_is_stale(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    os.utime(tmp_path / "old", (0, 0))
    for path in list(tmp_path.iterdir()):
        remove_stale(path)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_what_has_just_got_its_name_is_not_stale(tmp_path: Path) -> None:
    remove_stale(tmp_path / ".partial-renamed-meanwhile")
    assert not list(tmp_path.iterdir())


def test_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[:1])
        raise OSError(28, "No space left on device")

    path = tmp_path / "file"
    write_file(path, b"old")
    monkeypatch.setattr(Path, "write_bytes", no_space)
    with pytest.raises(InputError, match=r"Cannot write .*file: No space left on device\.$"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_write_under_a_file_names_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(InputError, match=r"Cannot write .*file/below: "):
        write_file(tmp_path / "file" / "below", b"x")


def test_read_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cannot read .*absent: No such file or directory\.$"):
        read_file(tmp_path / "absent")


def test_read_names_a_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"Cannot read {tmp_path}: Is a directory\.$"):
        read_file(tmp_path)


def test_read_names_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match=r"Cannot read .*empty: the file is empty\.$"):
        read_file(tmp_path / "empty")


def test_what_is_moved_is_on_the_disk_before_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "beside", tmp_path / "file"
    source.write_bytes(b"new")
    target.write_bytes(b"old")
    fsync, seen = os.fsync, []

    def watched(number: int) -> None:
        fsync(number)
        seen.append(target.read_bytes())

    monkeypatch.setattr(os, "fsync", watched)
    move_file(source, target)
    # First the content, then the directory; there is no such thing as the latter on Windows.
    assert seen == ([b"old", b"new"] if os.name == "posix" else [b"old"])
    assert list(tmp_path.iterdir()) == [target]


def test_a_move_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        move_file(tmp_path / "absent", tmp_path / "file")


@pytest.mark.parametrize("size", [0, 3, (1 << 20) + 7])
def test_the_checksum_of_a_file(size: int, tmp_path: Path) -> None:
    content = bytes(index % 251 for index in range(size))
    (tmp_path / "file").write_bytes(content)
    assert file_sha256(tmp_path / "file") == hashlib.sha256(content).hexdigest()
