"""A run is begun once, resumed with its own configuration, and keeps its vocabularies."""

from pathlib import Path

import pytest

from keras_transformer.cli.run_directory import begin_run, run_tokenizers, saved_run
from keras_transformer.config import RunConfig
from keras_transformer.errors import InputError
from keras_transformer.files import write_file

RUN = RunConfig(name="tiny").override({"kind": "character", "shared": False, "epochs": 7})
PAIRS = [("ab", "xyz"), ("b", "z")]


def test_a_run_is_read_as_it_began(tmp_path: Path) -> None:
    begin_run(RUN, tmp_path, overwrite=False)
    assert saved_run(tmp_path) == RUN


def test_there_may_be_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{tmp_path} holds no run to resume"):
        saved_run(tmp_path)


def test_checkpoints_are_removed_only_on_demand(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    begin_run(RUN, directory, overwrite=False)
    write_file(directory / "checkpoints/state.json", b"{}")
    with pytest.raises(InputError, match="holds a run already"):
        begin_run(RUN, directory, overwrite=False)
    begin_run(RUN, directory, overwrite=True)
    assert not (directory / "checkpoints").exists()


def test_what_failed_before_a_checkpoint_leaves_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    begin_run(RUN, directory, overwrite=False)
    run_tokenizers(RUN, directory, PAIRS)
    begin_run(RUN, directory, overwrite=False)
    assert [path.name for path in directory.iterdir()] == ["config.json"]


def test_vocabularies_are_made_once(tmp_path: Path) -> None:
    first = run_tokenizers(RUN, tmp_path, PAIRS)
    again = run_tokenizers(RUN, tmp_path, [("other", "texts")])
    assert [tokenizer.vocabulary_size for tokenizer in first] == [6, 7]
    assert [tokenizer.vocabulary_size for tokenizer in again] == [6, 7]


def test_a_run_whose_state_is_damaged_can_be_begun_anew(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    begin_run(RUN, directory, overwrite=False)
    write_file(directory / "checkpoints/state.json", b"{")
    with pytest.raises(InputError, match=r"state\.json is damaged"):
        begin_run(RUN, directory, overwrite=False)
    begin_run(RUN, directory, overwrite=True)
    assert not (directory / "checkpoints").exists()


def test_half_a_vocabulary_is_made_again(tmp_path: Path) -> None:
    """A process that was killed between the two files of a vocabulary leaves one."""
    run_tokenizers(RUN, tmp_path, PAIRS)
    for options in tmp_path.glob("target_tokenizer/*.json"):
        options.unlink()
    assert (tmp_path / "target_tokenizer").is_dir()
    again = run_tokenizers(RUN, tmp_path, PAIRS)
    assert [tokenizer.vocabulary_size for tokenizer in again] == [6, 7]
    assert list(tmp_path.glob("target_tokenizer/*.json"))
