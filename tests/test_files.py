import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from keras_transformer._files import (
    Checksums,
    atomic_directory,
    atomic_file,
    read_file,
    remove_partials,
    write_file,
)
from keras_transformer.errors import InputError


def files(root: Path) -> dict[str, str]:
    return {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}


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


def test_content_is_on_the_disk_before_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    fsync, seen = os.fsync, []

    def watched(number: int) -> None:
        fsync(number)
        seen.append(target.read_bytes())

    monkeypatch.setattr(os, "fsync", watched)
    write_file(target, b"new")
    # First the content, then the directory; there is no such thing as the latter on Windows.
    assert seen == ([b"old", b"new"] if os.name == "posix" else [b"old"])


def test_a_file_that_was_not_written_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"Cannot write .*file: No such file"),
        atomic_file(tmp_path / "file"),
    ):
        pass
    assert not list(tmp_path.iterdir())


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


def test_only_what_is_old_and_of_this_name_is_removed(tmp_path: Path) -> None:
    names = [f".partial-{age}-{name}" for age in ("old", "new") for name in ("a", "b")]
    for name in names:
        (tmp_path / name).mkdir()
        if "old" in name:
            os.utime(tmp_path / name, (0, 0))
    write_file(tmp_path / "a", b"x")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names[1:], "a"])
    remove_partials(tmp_path, seconds=0)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("size", [0, 3, (1 << 20) + 7])
def test_the_checksum_of_a_file(size: int, tmp_path: Path) -> None:
    content = bytes(index % 251 for index in range(size))
    (tmp_path / "file").write_bytes(content)
    assert Checksums.of(tmp_path / "file") == hashlib.sha256(content).hexdigest()


def write(directory: Path, content: str) -> None:
    with atomic_directory(directory, replace=True) as partial:
        (partial / "a").write_text(content)
        (partial / "part").mkdir()
        (partial / "part" / "b").write_text(content)


def write_half(directory: Path) -> None:
    with atomic_directory(directory, replace=True) as partial:
        (partial / "a").write_text("second")
        raise OSError(28, "full")


def test_a_new_directory_appears_at_once(tmp_path: Path) -> None:
    with atomic_directory(tmp_path / "new" / "model") as partial:
        (partial / "a").write_text("first")
        assert not (tmp_path / "new" / "model").exists()
    assert files(tmp_path) == {"new/model/a": "first"}


def test_the_first_to_finish_gets_the_name(tmp_path: Path) -> None:
    def write_slowly() -> None:
        with atomic_directory(tmp_path / "model") as partial:
            (partial / "a").write_text("slow")
            with atomic_directory(tmp_path / "model") as other:
                (other / "a").write_text("fast")

    with pytest.raises(InputError, match=r"Cannot write .*model: Directory not empty"):
        write_slowly()
    assert files(tmp_path) == {"model/a": "fast"}


def test_an_old_directory_is_replaced_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    write(tmp_path / "model", "first")
    (tmp_path / "model" / "notes").write_text("mine")
    (tmp_path / "model" / "part" / "stale").write_text("first")
    write(tmp_path / "model", "second")
    assert files(tmp_path) == {"model/a": "second", "model/part/b": "second", "model/notes": "mine"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_link_and_the_working_directory_are_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", "first")
    monkeypatch.chdir(tmp_path / "real")
    write(Path(), "second")
    assert (tmp_path / "link").is_symlink()
    assert files(tmp_path / "real") == {"a": "second", "part/b": "second"}


def test_a_directory_that_is_there_may_be_a_disk_of_its_own(tmp_path: Path) -> None:
    """Nothing is renamed from one disk to another."""
    (tmp_path / "model").mkdir()
    with atomic_directory(tmp_path / "model", replace=True) as partial:
        assert partial.parent == tmp_path / "model"


def test_a_failure_leaves_no_new_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="full"):
        write_half(tmp_path / "new" / "model")
    assert not list(tmp_path.iterdir())


def test_a_failure_while_writing_leaves_the_old_directory(tmp_path: Path) -> None:
    write(tmp_path / "model", "first")
    with pytest.raises(InputError, match="full"):
        write_half(tmp_path / "model")
    assert files(tmp_path) == {"model/a": "first", "model/part/b": "first"}


@pytest.mark.parametrize("failing", [1, 2, 3, 4, 5])  # the decision, and two entries, each moved out and in
def test_a_failure_while_renaming_moves_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    write(tmp_path / "model", "first")
    rename, calls = Path.rename, []

    def fail_once(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == failing:
            raise OSError(5, "broken disk")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_once)
    with pytest.raises(InputError, match="broken disk"):
        write(tmp_path / "model", "second")
    assert files(tmp_path) == {"model/a": "first", "model/part/b": "first"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
