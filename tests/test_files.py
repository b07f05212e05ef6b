import collections
import hashlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from keras_transformer._files import (
    Checksums,
    atomic_directory,
    atomic_file,
    check_writable,
    current_path,
    open_for_reading,
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


# Kills a process that replaces a directory at each of its operations on files, and tells what is read then.
KILLS = """
import os, shutil, signal, sys
from pathlib import Path
from keras_transformer._files import Checksums, atomic_directory, current_path

root, count, limit = Path(sys.argv[1]), 0, 0

def watch(event, arguments):
    global count
    if event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir") and str(root) in str(arguments[0]):
        count += 1
        if count == limit:
            os.kill(os.getpid(), signal.SIGKILL)

def write(content):
    with atomic_directory(root / "task", replace=True) as partial:
        (partial / "options").write_text(content)
        (partial / "tokenizer").mkdir()
        (partial / "tokenizer" / "vocabulary").write_text(content)
        Checksums.write(partial)

def read():
    Checksums.check(root / "task")
    names = ("options", "tokenizer/vocabulary")
    return "+".join({current_path(root / "task", name).read_text() for name in names})

limit = 1
while True:
    shutil.rmtree(root / "task", ignore_errors=True)
    write("old")
    (root / "task" / "mine").touch()
    child = os.fork()
    if not child:
        count = 0
        sys.addaudithook(watch)
        try:
            write("new")
        finally:
            os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
    try:
        print(read() if (root / "task" / "mine").exists() else "lost")
    except Exception as error:
        print(error)
    write("next")
    assert read() == "next" and not (root / "task" / ".replacing").exists()
    limit += 1
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_at_any_moment_leaves_the_old_or_the_new_directory(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", KILLS, str(tmp_path)], check=True, capture_output=True, text=True, timeout=120
    )
    counts = collections.Counter(found.stdout.split())
    assert {*counts} == {"old", "new"}, found.stdout
    assert counts["old"] > 10
    assert counts["new"] > 5


def test_threads_save_to_one_new_directory(tmp_path: Path) -> None:
    barrier = threading.Barrier(4)

    def write_together(content: str) -> None:
        with atomic_directory(tmp_path / "new" / "model", replace=True) as partial:
            (partial / "a").write_text(content)
            Checksums.write(partial)
            barrier.wait(10)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write_together, "abcd"))
    Checksums.check(tmp_path / "new" / "model")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["model"]
    assert {*files(tmp_path / "new" / "model")} == {"a", Checksums.file}


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such locks")
def test_a_directory_that_is_being_written_is_not_taken_for_an_abandoned_one(tmp_path: Path) -> None:
    with atomic_directory(tmp_path / "cache") as partial:
        (partial / "ids").write_bytes(b"x")
        for path in (partial, partial / "ids"):
            os.utime(path, (0, 0))
        remove_partials(tmp_path)  # as another process does that writes the same
        assert (partial / "ids").exists()
    assert files(tmp_path) == {"cache/ids": "x"}


def test_files_of_an_old_directory_that_still_grow(tmp_path: Path) -> None:
    (tmp_path / ".partial-x-cache").mkdir()
    (tmp_path / ".partial-x-cache" / "ids").touch()
    os.utime(tmp_path / ".partial-x-cache", (0, 0))
    remove_partials(tmp_path)
    assert (tmp_path / ".partial-x-cache").exists()


def test_a_directory_that_was_removed_meanwhile_is_not_called_whole(tmp_path: Path) -> None:
    def write_cache() -> None:
        with atomic_directory(tmp_path / "cache") as partial:
            partial.rmdir()
            write_file(partial / "cache.json", b"{}")  # which makes the directory again

    with pytest.raises(InputError, match=r"Cannot write .*cache: .* was removed meanwhile"):
        write_cache()
    assert not list(tmp_path.iterdir())


def test_a_link_to_nothing_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "model").symlink_to(tmp_path / "disk" / "model")
    with pytest.raises(
        InputError, match=r"Cannot write .*/model: it is a link to .*/disk/model, which is not"
    ):
        write(tmp_path / "model", "x")
    with pytest.raises(InputError, match=r"it is a link to .*/disk/model"):
        check_writable(tmp_path / "model")
    assert not (tmp_path / "disk").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_is_read_if_a_program_writes_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keras_transformer._files._PIPE_SECONDS", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"Cannot read .*pipe: it is a named pipe, and no program writes"):
        read_file(tmp_path / "pipe")
    monkeypatch.setattr("keras_transformer._files._PIPE_SECONDS", 10)
    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit((tmp_path / "pipe").write_bytes, b"text" * 50_000)
        with open_for_reading(tmp_path / "pipe") as file:
            assert file.read() == b"text" * 50_000
        writing.result()


def test_no_more_is_read_than_a_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_file(tmp_path / "file", limit=6) == b"12345"
    with pytest.raises(InputError, match=r"file: the file is too large"):
        read_file(tmp_path / "file", limit=5)


def test_an_entry_is_where_the_last_rename_left_it(tmp_path: Path) -> None:
    (tmp_path / ".replacing").mkdir()
    for path in ("a", ".replacing/a", "b"):
        (tmp_path / path).touch()
    assert current_path(tmp_path, "a") == tmp_path / ".replacing" / "a"
    assert current_path(tmp_path, "b") == tmp_path / "b"
