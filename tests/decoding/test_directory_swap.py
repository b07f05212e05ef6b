"""Directories appear whole, or not at all."""

from pathlib import Path

import pytest

from keras_transformer.files import written_as_one


def write(directory: Path, content: str) -> None:
    with written_as_one(directory) as beside:
        (beside / "a").write_text(content)
        (beside / "part").mkdir()
        (beside / "part" / "b").write_text(content)


def write_half(directory: Path) -> None:
    with written_as_one(directory) as beside:
        (beside / "a").write_text("second")
        raise OSError(28, "full")


def files(root: Path) -> dict[str, str]:
    return {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_a_new_directory_appears_at_once(tmp_path: Path) -> None:
    with written_as_one(tmp_path / "new" / "model") as beside:
        (beside / "a").write_text("first")
        assert not (tmp_path / "new" / "model").exists()
    assert files(tmp_path) == {"new/model/a": "first"}


def test_an_old_one_is_replaced_and_what_is_not_ours_stays(tmp_path: Path) -> None:
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
    with written_as_one(tmp_path / "model") as beside:
        assert beside.parent == tmp_path / "model"


def test_a_failure_while_writing_leaves_the_old_one(tmp_path: Path) -> None:
    write(tmp_path / "model", "first")
    with pytest.raises(OSError, match="full"):
        write_half(tmp_path / "model")
    assert files(tmp_path) == {"model/a": "first", "model/part/b": "first"}


@pytest.mark.parametrize("failing", [1, 2, 3, 4])  # two entries, each moved out and in
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
    with pytest.raises(OSError, match="broken disk"):
        write(tmp_path / "model", "second")
    assert files(tmp_path) == {"model/a": "first", "model/part/b": "first"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
