"""What is replaced is a run's own; what else is there stays."""

from pathlib import Path

import pytest

from helpers import save_epochs
from keras_transformer.errors import InputError
from keras_transformer.runs import RunConfig
from keras_transformer.runs.directory import CONFIG_FILE, OF_A_RUN, begin_run, set_aside, settle

SAVED = ("checkpoints", "training.csv", "training.png")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A run that has saved something, and texts that are not its own."""
    directory = tmp_path / "runs/tiny"
    begin_run(RunConfig(name="tiny"), directory, overwrite=False)
    save_epochs(directory, 3)
    (directory / "train.en").write_text("a\n")
    (directory / "exports").mkdir()
    return directory


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_what_no_run_has_written_stays(directory: Path) -> None:
    begin_run(RunConfig(name="tiny"), directory, overwrite=True)
    assert names(directory) == {CONFIG_FILE, "train.en", "exports"}
    save_epochs(directory, 1)
    settle(directory)
    assert names(directory) == {CONFIG_FILE, *SAVED, "train.en", "exports"}
    assert names(directory.parent) == {"tiny"}


def test_what_no_run_has_written_stays_with_a_run_that_is_put_back(directory: Path) -> None:
    begin_run(RunConfig(name="tiny"), directory, overwrite=True)
    settle(directory)
    assert names(directory) == {CONFIG_FILE, *SAVED, "train.en", "exports"}
    assert names(directory.parent) == {"tiny"}


def test_a_process_that_was_killed_between_two_moves_loses_nothing(directory: Path) -> None:
    set_aside(directory)
    aside = directory.parent / ".replaced-tiny"
    (directory / "train.en").rename(aside / "train.en")
    settle(directory)
    assert names(directory) == {CONFIG_FILE, *SAVED, "train.en", "exports"}


def test_a_link_to_another_disk_stays_one(directory: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    directory.rename(disk)
    directory.symlink_to(disk)
    begin_run(RunConfig(name="tiny"), directory, overwrite=True)
    save_epochs(directory, 1)
    settle(directory)
    assert directory.is_symlink()
    assert names(disk) == {CONFIG_FILE, *SAVED, "train.en", "exports"}
    assert names(tmp_path) == {"disk", "runs"}


def test_the_configuration_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / CONFIG_FILE).write_text('{"architectures": []}')
    with pytest.raises(InputError, match=r"config\.json is of no run, and a run would replace it"):
        begin_run(RunConfig(name="tiny"), tmp_path, overwrite=True)


def test_the_names_are_those_of_the_pictures_too() -> None:
    assert {"attention.png", "training.png", "training.csv", "report.json"} <= set(OF_A_RUN)
