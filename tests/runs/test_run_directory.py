"""A run is begun once, resumed with its own configuration, and keeps its vocabularies."""

import dataclasses
from pathlib import Path

import pytest

from helpers import save_epochs
from keras_transformer.errors import InputError
from keras_transformer.files import write_file
from keras_transformer.runs import RunConfig
from keras_transformer.runs.directory import (
    begin_run,
    continue_run,
    resumed_run,
    run_tokenizers,
    saved_run,
    settle,
)

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
    save_epochs(directory)
    with pytest.raises(InputError, match="holds a run already"):
        begin_run(RUN, directory, overwrite=False)
    begin_run(RUN, directory, overwrite=True)
    assert not (directory / "checkpoints").exists()


@pytest.mark.parametrize("name", ["model.keras", "pytorch_model.bin", "checkpoints/epoch-0003.keras"])
def test_what_no_unfinished_run_leaves_is_not_removed(name: str, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    begin_run(RUN, directory, overwrite=False)
    write_file(directory / name, b"precious")
    message = f"(holds more than a run that saved nothing: |holds ){Path(name).name}"
    with pytest.raises(InputError, match=message):
        begin_run(RUN, directory, overwrite=False)
    assert (directory / name).read_bytes() == b"precious"


def test_a_configuration_of_something_else_is_not_removed(tmp_path: Path) -> None:
    write_file(tmp_path / "config.json", b'{"architectures": ["Bert"]}')
    with pytest.raises(InputError, match=r"saved nothing: config\.json"):
        begin_run(RUN, tmp_path, overwrite=False)
    assert b"Bert" in (tmp_path / "config.json").read_bytes()


def test_a_replaced_run_goes_only_when_the_new_one_has_saved_something(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    state = directory / "checkpoints/state.json"
    begin_run(RUN, directory, overwrite=False)
    write_file(state, b"old")
    begin_run(RUN, directory, overwrite=True)
    settle(directory)  # as after an error before the first checkpoint
    assert state.read_bytes() == b"old"
    begin_run(RUN, directory, overwrite=True)
    begin_run(RUN, directory, overwrite=True)  # as after a kill
    settle(directory)
    assert state.read_bytes() == b"old"
    begin_run(RUN, directory, overwrite=True)
    write_file(state, b"new")
    settle(directory)
    assert state.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_checkpoints_without_a_configuration_are_replaced_too(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    write_file(directory / "checkpoints/state.json", b"{}")  # as `training.fit` leaves it
    begin_run(RUN, directory, overwrite=True)
    assert [path.name for path in directory.iterdir()] == ["config.json"]
    settle(directory)
    assert (directory / "checkpoints/state.json").exists()


@pytest.mark.parametrize("name", ["translator.json", "model.keras", "source_tokenizer/tokenizer.json"])
def test_a_translator_is_neither_replaced_nor_its_vocabularies_used(name: str, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    write_file(directory / name, b"precious")  # as `Translator.save` leaves it
    with pytest.raises(InputError, match=f"would read or replace: {Path(name).parts[0]}"):
        begin_run(RUN, directory, overwrite=False)
    begin_run(RUN, directory, overwrite=True)
    assert [path.name for path in directory.iterdir()] == ["config.json"]
    settle(directory)
    assert (directory / name).read_bytes() == b"precious"


def test_a_configuration_that_is_no_text(tmp_path: Path) -> None:
    write_file(tmp_path / "config.json", b"\xff\xfe{")
    with pytest.raises(InputError, match=r"config\.json: is not valid JSON"):
        saved_run(tmp_path)


@pytest.mark.parametrize("flags", [{"beam_size": 9}, {"monitored_pairs": 9}, {"bleu_tokenize": "char"}])
def test_scores_that_choose_the_best_epoch_stay_comparable(flags: dict[str, object]) -> None:
    assert resumed_run(RUN, RUN.override(flags)) == RUN.override(flags)
    scored = RUN.override({"monitor": "bleu"})
    with pytest.raises(
        InputError, match=f"epochs, patience and directories, nothing else.*{next(iter(flags))}=9?"
    ):
        resumed_run(scored, scored.override(flags))


def test_what_may_change_in_a_run_that_goes_on() -> None:
    flags = {"epochs": 9, "patience": 2, "beam_size": 3, "export_directory": "elsewhere"}
    assert resumed_run(RUN, RUN.override(flags)) == RUN.override(flags)
    wanted = r"Received: training\.peak_learning_rate=0\.5 after 0\.001, training\.seed=1 after 0\."
    with pytest.raises(InputError, match=wanted):
        resumed_run(
            dataclasses.replace(RUN, data=dataclasses.replace(RUN.data, seed=1)),
            RUN.override({"peak_learning_rate": 0.5, "seed": 1}),
        )


def test_a_cosine_schedule_has_an_end() -> None:
    run = RUN.override({"schedule": "cosine"})
    assert resumed_run(run, run.override({"epochs": 5})).training.epochs == 5
    with pytest.raises(InputError, match=r"rate 0 after 7 epochs.*Received: epochs=8\."):
        resumed_run(run, run.override({"epochs": 8}))


def test_fewer_epochs_of_a_cosine_schedule_hold_for_one_call(tmp_path: Path) -> None:
    for schedule, expected in (("cosine", 7), ("constant", 5)):
        run = RUN.override({"schedule": schedule})
        continue_run(run.override({"epochs": 5, "patience": 2}), tmp_path, run)
        assert saved_run(tmp_path) == run.override({"epochs": expected, "patience": 2})


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


def test_a_vocabulary_that_was_trained_on_is_not_made_again(tmp_path: Path) -> None:
    run_tokenizers(RUN, tmp_path, PAIRS)
    save_epochs(tmp_path)
    for options in tmp_path.glob("target_tokenizer/*.json"):
        options.unlink()
    with pytest.raises(InputError, match=r"no longer both source_tokenizer and target_tokenizer"):
        run_tokenizers(RUN, tmp_path, PAIRS)


def test_a_run_does_not_begin_with_the_model_it_replaces(tmp_path: Path) -> None:
    run = RUN.override({"initial_model": str(tmp_path / "runs/../runs/tiny")})
    begin_run(RUN, tmp_path / "runs/tiny", overwrite=False)
    with pytest.raises(InputError, match=r"`initial_model` must be another run"):
        begin_run(run, tmp_path / "runs/tiny", overwrite=True)
    assert saved_run(tmp_path / "runs/tiny") == RUN
