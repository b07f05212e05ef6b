from pathlib import Path

import pytest

from keras_transformer.errors import InputError
from keras_transformer.files import read_file, write_file


def test_written_file_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_file(path, b"first")
    write_file(path, b"second")
    assert read_file(path) == b"second"
    assert list(path.parent.iterdir()) == [path]


def test_a_written_file_has_ordinary_permissions(tmp_path: Path) -> None:
    ordinary = tmp_path / "ordinary"
    ordinary.write_bytes(b"x")
    write_file(tmp_path / "file", b"x")
    assert (tmp_path / "file").stat().st_mode == ordinary.stat().st_mode


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
