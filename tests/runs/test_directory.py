"""A directory belongs to one process, is begun once, goes on as it began, and loses nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from keras_transformer.errors import InputError
from keras_transformer.runs import Run, RunConfig
from keras_transformer.runs.directory import begun, check_data, content, locked, resumed, write_config
from keras_transformer.runs.kind import RunKind
from keras_transformer.runs.translation import TranslationRun

CONFIG = RunConfig().override(name="tiny", kind="character", shared=False, epochs=7)
PAIRS = [("ab", "xyz"), ("b", "z")]


def save(directory: Path, content: str) -> None:
    """Leave what a run leaves that has saved something."""
    (directory / "checkpoints").mkdir(exist_ok=True)
    (directory / "checkpoints/state.json").write_text(content)


def saved(directory: Path) -> str:
    return (directory / "checkpoints/state.json").read_text()


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def check_pairs(directory: Path, **parts: list[tuple[str, str]]) -> None:
    kind = RunKind.of(CONFIG)
    check_data(directory, type(kind), **{part: kind.fingerprint(pairs) for part, pairs in parts.items()})


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A run that has saved something, and texts that are not its own."""
    directory = tmp_path / "runs/tiny"
    with begun(directory, CONFIG, overwrite=False):
        save(directory, "old")
    (directory / "train.en").write_text("a\n")
    (directory / "exports").mkdir()
    return directory


WHOLE = {"config.json", "checkpoints", "train.en", "exports"}


def test_a_run_is_read_as_it_began(directory: Path) -> None:
    config = Run.open(directory).config
    assert config.override(run_directory="runs") == CONFIG


def test_there_may_be_nothing_to_open(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"^{tmp_path} holds no run: it has no config\.json"):
        Run.open(tmp_path)


def test_a_configuration_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(InputError, match=r"config\.json: is not valid JSON"):
        Run.open(tmp_path)


def test_a_run_is_replaced_only_on_demand(directory: Path) -> None:
    with pytest.raises(InputError, match="holds a run already"), begun(directory, CONFIG, overwrite=False):
        pass
    assert (names(directory), saved(directory)) == (WHOLE, "old")
    with begun(directory, CONFIG, overwrite=True):
        assert not (directory / "checkpoints").exists()
        assert {"train.en", "exports"} <= names(directory)
        save(directory, "new")
    assert (names(directory), saved(directory)) == (WHOLE, "new")


def test_a_replaced_run_is_put_back_where_the_new_one_has_saved_nothing(directory: Path) -> None:
    with begun(directory, CONFIG, overwrite=True):
        (directory / "pairs.json").write_text("{}")
    assert (names(directory), saved(directory)) == (WHOLE, "old")


def test_a_replaced_run_is_put_back_after_an_error(directory: Path) -> None:
    with pytest.raises(RuntimeError, match="any"), begun(directory, CONFIG, overwrite=True):
        raise RuntimeError("any")
    assert (names(directory), saved(directory)) == (WHOLE, "old")


def test_a_process_that_is_killed_loses_nothing(directory: Path) -> None:
    killed = begun(directory, CONFIG, overwrite=True)
    killed.__enter__()
    with pytest.raises(InputError, match="holds a run already"), begun(directory, CONFIG, overwrite=False):
        pass
    assert (names(directory), saved(directory)) == (WHOLE, "old")


@pytest.mark.parametrize("moved", [["config.json"], ["checkpoints"]])
def test_a_process_that_is_killed_between_two_moves_loses_nothing(moved: list[str], directory: Path) -> None:
    (directory / ".replaced.moving").mkdir()
    for name in moved:
        (directory / name).rename(directory / ".replaced.moving" / name)
    with pytest.raises(InputError, match="holds a run already"), begun(directory, CONFIG, overwrite=False):
        pass
    assert (names(directory), saved(directory)) == (WHOLE, "old")


def test_a_killed_run_that_goes_on_replaces_the_earlier_one(directory: Path) -> None:
    begun(directory, CONFIG, overwrite=True).__enter__()
    with resumed(directory, CONFIG):
        save(directory, "new")
    assert (names(directory), saved(directory)) == (WHOLE, "new")


def test_a_link_to_another_disk_stays_one(directory: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    directory.rename(disk)
    directory.symlink_to(disk)
    with begun(directory, CONFIG, overwrite=True):
        save(directory, "new")
    assert directory.is_symlink()
    assert names(disk) == WHOLE
    assert names(tmp_path) == {"disk", "runs"}


def test_what_failed_before_a_checkpoint_begins_again(tmp_path: Path) -> None:
    for _ in range(2):
        with begun(tmp_path, CONFIG, overwrite=False):
            assert names(tmp_path) <= {"config.json", "pytorch_model.bin"}
            for name in ("pairs.json", "pytorch_model.bin"):
                (tmp_path / name).write_text("{}")


@pytest.mark.parametrize("name", ["model.keras", "report.json", "checkpoints/epoch-0003.keras"])
def test_what_no_unfinished_run_leaves_is_not_removed(name: str, tmp_path: Path) -> None:
    with begun(tmp_path, CONFIG, overwrite=False):
        pass
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"precious")
    with (
        pytest.raises(InputError, match=f"holds what a run would read or replace: .*{Path(name).name}"),
        begun(tmp_path, CONFIG, overwrite=False),
    ):
        pass
    assert (tmp_path / name).read_bytes() == b"precious"


@pytest.mark.parametrize("name", ["translator.json", "model.keras", "source_tokenizer/tokenizer.json"])
def test_a_translator_is_neither_replaced_nor_its_vocabularies_used(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"precious")  # as `Translator.save` leaves it
    with (
        pytest.raises(InputError, match=f"would read or replace: {Path(name).parts[0]}"),
        begun(tmp_path, CONFIG, overwrite=False),
    ):
        pass
    with begun(tmp_path, CONFIG, overwrite=True):
        assert not (tmp_path / name).exists()
    assert (tmp_path / name).read_bytes() == b"precious"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_configuration_of_something_else_is_not_replaced(overwrite: bool, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["Bert"]}')
    with (
        pytest.raises(InputError, match=r"config\.json is not that of a run, and a run would replace it"),
        begun(tmp_path, CONFIG, overwrite=overwrite),
    ):
        pass
    assert "Bert" in (tmp_path / "config.json").read_text()


def test_checkpoints_without_a_configuration_are_replaced_too(tmp_path: Path) -> None:
    save(tmp_path, "old")  # as `training.fit` leaves it
    with begun(tmp_path, CONFIG, overwrite=True):
        assert not (tmp_path / "checkpoints").exists()
    assert saved(tmp_path) == "old"


def test_a_run_does_not_begin_with_the_model_it_replaces(directory: Path) -> None:
    config = CONFIG.override(initial_model=str(directory.parent / "../runs/tiny"))
    with (
        pytest.raises(InputError, match=r"`initial_model` must be another run"),
        begun(directory, config, overwrite=True),
    ):
        pass
    assert (names(directory), saved(directory)) == (WHOLE, "old")


def resume(directory: Path, begun_with: RunConfig, wanted: RunConfig) -> RunConfig:
    """Begin a run and go on; return the configuration that is left."""
    with begun(directory, begun_with, overwrite=True):
        save(directory, "{}")
    before = (directory / "config.json").read_bytes()
    with resumed(directory, wanted) as config:
        assert (directory / "config.json").read_bytes() == before  # until nothing can be refused any more
    return config


@pytest.mark.parametrize(
    "options",
    [
        {"epochs": 9, "patience": 2, "beam_size": 3, "export_directory": "elsewhere"},
        {"beam_size": 9},
        {"monitored_pairs": 9},
        {"bleu_tokenize": "char"},
    ],
)
def test_what_may_change_in_a_run_that_goes_on(options: dict[str, Any], tmp_path: Path) -> None:
    assert resume(tmp_path, CONFIG, CONFIG.override(**options)) == CONFIG.override(**options)


@pytest.mark.parametrize("options", [{"beam_size": 9}, {"monitored_pairs": 9}, {"bleu_tokenize": "char"}])
def test_scores_that_choose_the_best_epoch_stay_comparable(options: dict[str, Any], tmp_path: Path) -> None:
    config = CONFIG.override(monitor="bleu")
    wanted = f"epochs, patience and directories, nothing else.*{next(iter(options))}="
    with pytest.raises(InputError, match=wanted):
        resume(tmp_path, config, config.override(**options))


def test_what_may_not_change_in_a_run_that_goes_on(tmp_path: Path) -> None:
    wanted = (
        r"Received: data\.seed=1 after 0, training\.peak_learning_rate=0\.5 after 0\.001, "
        r"training\.seed=1 after 0, model\.num_heads=2 after None\."
    )
    with pytest.raises(InputError, match=wanted):
        resume(tmp_path, CONFIG, CONFIG.override(peak_learning_rate=0.5, seed=1, num_heads=2))
    with pytest.raises(InputError, match=r"Received: model\.num_heads=None after 2\."):
        resume(tmp_path, CONFIG.override(num_heads=2), CONFIG)


def test_a_cosine_schedule_has_an_end(tmp_path: Path) -> None:
    config = CONFIG.override(schedule="cosine")
    with pytest.raises(InputError, match=r"rate 0 after 7 epochs.*Received: epochs=8\."):
        resume(tmp_path, config, config.override(epochs=8))


@pytest.mark.parametrize(("schedule", "epochs"), [("cosine", 7), ("constant", 5)])
def test_fewer_epochs_of_a_cosine_schedule_hold_for_one_call(
    schedule: str, epochs: int, tmp_path: Path
) -> None:
    config = CONFIG.override(schedule=schedule)
    left = resume(tmp_path, config, config.override(epochs=5, patience=2))
    assert left == config.override(epochs=epochs, patience=2)


@pytest.mark.parametrize(
    ("train", "validation", "changed"),
    [
        (PAIRS[::-1], PAIRS, "train"),
        (PAIRS, PAIRS[:1], "validation"),
        ([*PAIRS, ("g", "h")], [("ab", "xyz"), ("b", "Z")], "train and validation"),
        ([("abxyz", ""), ("b", "z")], PAIRS, "train"),
    ],
)
def test_a_run_that_goes_on_has_the_pairs_that_it_began_with(
    train: list[tuple[str, str]], validation: list[tuple[str, str]], changed: str, tmp_path: Path
) -> None:
    check_pairs(tmp_path, train=PAIRS, validation=PAIRS)
    check_pairs(tmp_path, train=PAIRS, validation=PAIRS)
    with pytest.raises(InputError, match=rf"Received: other {changed} pairs than those of .*pairs\.json"):
        check_pairs(tmp_path, train=train, validation=validation)


def test_damaged_fingerprints_are_named(tmp_path: Path) -> None:
    (tmp_path / "pairs.json").write_text("{")
    with pytest.raises(InputError, match=r"pairs\.json is damaged: "):
        check_pairs(tmp_path, train=PAIRS)


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"examples": null}', '{"seconds": 3'])
def test_a_report_without_examples(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "report.json").write_text(content)
    assert Run.examples(tmp_path) == ()


def test_a_run_writes_what_is_listed_and_nothing_else(trained: Path) -> None:
    assert names(trained / "runs/tiny") == set(content([TranslationRun]))
    assert names(trained / "runs") == {"tiny"}


def test_the_report_is_the_table_and_examples(trained: Path) -> None:
    report = json.loads((trained / "runs/tiny/report.json").read_text(encoding="utf-8"))
    assert 0 <= report["scores"]["exact_match"]["value"] <= 1
    assert report["num_items"] == 2  # 5 % of 40 pairs are held out
    assert Run.examples(trained / "runs/tiny") == tuple(report["examples"])
    assert len(report["examples"]) == 2


# Without the package, whose import takes seconds.
HOLD = """
import fcntl, sys, time

with open(sys.argv[1], "a") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    time.sleep(600)
"""
needs_locks = pytest.mark.skipif(os.name != "posix", reason="Windows has no such locks")


@needs_locks
def test_another_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    directory, place = tmp_path / "runs/mine", tmp_path / "runs/.mine.lock"
    place.parent.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(place)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(InputError, match=r"Another process is training .*runs/mine"), locked(directory):
            pass
        with locked(tmp_path / "runs/other"):
            pass
        process.kill()
    with locked(directory):
        assert not directory.exists()
    assert names(directory.parent) == set()


@needs_locks
def test_a_place_that_was_made_for_nothing_goes(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="any"), locked(tmp_path / "runs/mine"):
        raise RuntimeError("any")
    with locked(tmp_path / "runs/mine"):
        pass
    assert names(tmp_path) == set()


@needs_locks
def test_a_file_that_its_process_removes_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")
    real, calls = fcntl.flock, []

    def flock(file: object, operation: int) -> None:
        real(file, operation)
        calls.append(operation)
        if len(calls) == 1:
            (tmp_path / ".run.lock").unlink()

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path / "run"):
        assert (tmp_path / ".run.lock").exists()
    assert len(calls) == 2


@needs_locks
@pytest.mark.parametrize("names", [("real", "link"), ("link", "real"), ("link", "other/../link")])
def test_a_link_is_another_name_of_one_run(names: tuple[str, str], tmp_path: Path) -> None:
    for name in ("real", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with (
        locked(tmp_path / names[0]),
        pytest.raises(InputError, match="Another process is training"),
        locked(tmp_path / names[1]),
    ):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"real", "link", "other"}


def test_a_run_at_a_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    with (
        pytest.raises(InputError, match=r"Cannot write .*/run: it is a link to .*/disk"),
        locked(tmp_path / "run"),
    ):
        pass


@pytest.fixture
def complete(tmp_path: Path) -> Path:
    """A run with a checkpoint, and all that it wrote before."""
    directory = tmp_path / "run"
    with begun(directory, CONFIG, overwrite=False):
        check_pairs(directory, train=PAIRS)
        for name in ("source_tokenizer", "target_tokenizer"):
            (directory / name).mkdir()
            (directory / name / "tokenizer.json").write_text('{"lowercase": false}')
            (directory / name / "vocabulary.txt").write_text("a\nb\n")
        write_config(directory, CONFIG, is_complete=True)
        save(directory, "{}")
    return directory


def go_on(directory: Path) -> None:
    with resumed(directory, Run.open(directory).config):
        pass


def test_what_is_unchanged_goes_on(complete: Path) -> None:
    go_on(complete)
    table = json.loads((complete / "config.json").read_text())
    # As runs of earlier versions, and of who edits the file, have it.
    (complete / "config.json").write_text(
        json.dumps({name: table[name] for name in table if name != "checksums"})
    )
    (complete / "pairs.json").unlink()
    go_on(complete)


@pytest.mark.parametrize(
    "name",
    [
        "pairs.json",
        *(
            f"{side}_tokenizer/{file}"
            for side in ("source", "target")
            for file in ("tokenizer.json", "vocabulary.txt")
        ),
    ],
)
@pytest.mark.parametrize("change", ["changed", "removed"])
def test_what_was_changed_by_hand_is_named(name: str, change: str, complete: Path) -> None:
    if change == "removed":
        (complete / name).unlink()
    else:
        (complete / name).write_text((complete / name).read_text() + " ")
    wanted = f"no '{name}' any more" if change == "removed" else f"{name} was changed after the run began"
    with pytest.raises(InputError, match=wanted):
        go_on(complete)


@pytest.mark.parametrize(("old", "new"), [('"epochs": 7', '"epochs": 8'), ('"seed": 0', '"seed": 1')])
def test_a_configuration_that_was_changed_by_hand(old: str, new: str, complete: Path) -> None:
    text = (complete / "config.json").read_text()
    assert old in text
    (complete / "config.json").write_text(text.replace(old, new))
    with pytest.raises(InputError, match=r"config\.json was changed after the run began"):
        go_on(complete)


def test_checkpoints_that_were_not_copied(complete: Path, caplog: pytest.LogCaptureFixture) -> None:
    (complete / "checkpoints/state.json").unlink()
    go_on(complete)
    assert caplog.messages == [f"{complete} has no checkpoint: the run starts with its first epoch"]
    (complete / "training.csv").touch()
    with pytest.raises(
        InputError, match=r"cannot go on: it holds training\.csv of epochs .*Copy checkpoints"
    ):
        go_on(complete)
