"""Small files of JSON and TOML: nests without end, wrong types, numbers out of range, other places."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import keras_transformer as kt
from keras_transformer._files import Checksums, read_table
from keras_transformer.errors import InputError
from keras_transformer.runs import RunConfig
from keras_transformer.training import Checkpoint

DEEP = 100_000
NESTS = {
    "lists": "[" * DEEP,
    "whole lists": "[" * DEEP + "]" * DEEP,
    "objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "a value": '{"search": ' + "[" * DEEP + "]" * DEEP + "}",
    "not quite as deep": '{"search": ' + "[" * 800 + "]" * 800 + "}",
}
TOML_NESTS = {
    "lists": "name = " + "[" * DEEP,
    "whole lists": "name = " + "[" * DEEP + "]" * DEEP,
    "tables": "name = " + "{a = " * DEEP + "1" + "}" * DEEP,
    # Python's parser takes a time that grows with the square of these.
    "a dotted key": "name." + ".".join(["a"] * 1000) + " = 1",
    "a dotted table": "[" + ".".join(["a"] * 1000) + "]",
    "not quite as deep": "name = " + "[" * 300 + "]" * 300,
}


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 1000
    return message


READERS: dict[str, Callable[[Path], object]] = {
    "translator.json": kt.Translator.load,
    "source_tokenizer/tokenizer.json": lambda run: kt.text.Tokenizer.load(run / "source_tokenizer"),
    "source_tokenizer/vocabulary.txt": lambda run: kt.text.Tokenizer.load(run / "source_tokenizer"),
    "checkpoints/state.json": Checkpoint,
    "config.json": kt.Run.open,
}


@pytest.mark.parametrize("nest", NESTS.values(), ids=NESTS)
@pytest.mark.parametrize("name", READERS)
def test_a_nest_without_end_is_refused(run: Path, name: str, nest: str) -> None:
    (run / name).write_text(nest)
    (run / Checksums.file).unlink()
    assert str(run / name) in refusal(lambda: READERS[name](run))


@pytest.mark.parametrize("nest", NESTS.values(), ids=NESTS)
def test_a_nest_in_the_notes_of_a_run(
    trained: Path, run: Path, nest: str, command: Callable[..., Any]
) -> None:
    (run / "pairs.json").write_text(nest)
    words = [
        "--run-directory",
        run.parent,
        "--name",
        run.name,
        "--pairs",
        trained / "pairs.tsv",
        "--epochs",
        2,
    ]
    result = command("train", "--resume", *words, "--kind", "character", "--separate")
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    (run / "report.json").write_text(nest)
    assert kt.Run.examples(run) == ()


@pytest.mark.parametrize("nest", TOML_NESTS.values(), ids=TOML_NESTS)
def test_a_nest_in_a_recipe(tmp_path: Path, nest: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(nest)
    message = refusal(lambda: RunConfig.from_toml(path))
    assert message.startswith(f"{path}: is not valid TOML: ")


def test_what_is_nested_as_ours_is_read() -> None:
    wanted = {"a": [[[[{"b": {"c": [1, None, "x"]}}]]]]}
    assert read_table(json.dumps(wanted).encode(), "file") == wanted


def test_a_file_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").symlink_to("/dev/zero")
    assert "the file is too large" in refusal(lambda: kt.text.Tokenizer.load(tmp_path))


EDITS: list[dict[str, Any]] = [
    {"search": []},
    {"search": None},
    {"search": {}},
    {"search": {"kind": ["beam"]}},
    {"search": {"kind": "beam", "beam_size": 10**30}},
    {"search": {"kind": "beam", "beam_size": 2**31}},
    {"search": {"kind": "beam", "beam_size": -1}},
    {"search": {"kind": "beam", "beam_size": 2.0}},
    {"search": {"kind": "beam", "beam_size": True}},
    {"search": {"kind": "beam", "beam_size": "4"}},
    {"search": {"kind": "beam", "length_penalty": math.nan}},
    {"search": {"kind": "beam", "length_penalty": math.inf}},
    {"search": {"kind": "beam", "cut_off_competes": "much"}},
    {"search": {"kind": "beam", "coverage_penalty": "much"}},
    {"search": {"kind": "beam", "coverage_penalty": 0.2}},  # of an earlier version
    {"search": {"kind": "beam", "early_stopping": "no"}},
    {"search": {"kind": "beam", "num_hypotheses": []}},
    {"search": {"kind": "beam", "special_ids": {"pad": 0, "other": 1}}},
    {"search": {"kind": "beam", "special_ids": [0, 1, 2, "3"]}},
    {"search": {"kind": "beam", "special_ids": [0, 1, 2, 3, 4]}},
    {"search": {"kind": "beam", "special_ids": [0, 1, 2, -3]}},
    {"search": {"kind": "beam", "special_ids": 3}},
    {"search": {"kind": "beam", "constraints": []}},
    {"search": {"kind": "beam", "constraints": {"banned_token_ids": 3}}},
    {"search": {"kind": "beam", "constraints": {"banned_token_ids": [3.5]}}},
    {"search": {"kind": "beam", "constraints": {"min_length": 10**30}}},
    {"search": {"kind": "beam", "constraints": {"other": 1}}},
    {"search": {"kind": "sample", "seed": 1.5}},
    {"search": {"kind": "sample", "top_k": 10**30}},
    {"max_source_length": math.nan},
    {"max_source_length": -math.inf},
    {"max_source_length": 10**30},
    {"max_source_length": 0},
    {"max_target_length": None},
    {"max_target_length": [12]},
    {"parts": []},
    {"other": 1},
]


@pytest.mark.parametrize("edit", EDITS, ids=map(str, range(len(EDITS))))
def test_an_edit_of_a_translator_is_refused(run: Path, edit: dict[str, Any]) -> None:
    path = run / "translator.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **edit}))
    (run / Checksums.file).unlink()
    assert refusal(lambda: kt.Translator.load(run)).startswith(f"{path}")


def test_a_flip_of_a_translator_is_noticed(run: Path) -> None:
    path = run / "translator.json"
    options = json.loads(path.read_text())
    options["search"]["special_ids"][3] ^= 1
    path.write_text(json.dumps(options))
    assert f"{path} is damaged, half copied or of another model" in refusal(lambda: kt.Translator.load(run))


def saved(**changes: object) -> Callable[[dict[str, Any]], None]:
    return lambda state: state["saved"][0].update(changes)


STATES: list[Callable[[dict[str, Any]], Any]] = [
    saved(epoch=-5),
    saved(epoch=0),
    saved(epoch=10**30),
    saved(epoch=2**31),
    saved(epoch=7),
    saved(epoch="1"),
    saved(epoch=True),
    saved(epoch=1.0),
    saved(epoch=None),
    saved(epoch="../../1"),
    saved(sha256="../../secret"),
    saved(sha256=""),
    saved(sha256=5),
    saved(seeds=[[1]]),
    saved(seeds=[[1, "2"]]),
    saved(seeds=[[1, 10**30]]),
    saved(seeds=5),
    saved(generator=[0.5]),
    saved(generator=[10**30]),
    saved(file="../../etc/passwd"),
    lambda state: state.update(saved={}),
    lambda state: state.update(saved=[1]),
    lambda state: state.update(saved=state["saved"] * 2),
    lambda state: state.update(history=[]),
    lambda state: state.update(history={"val_loss": 1}),
    lambda state: state.update(history={"val_loss": ["a"]}),
    lambda state: state.update(history={"val_loss": []}),
    lambda state: state.update(history={"val_loss": [1.0] * 9}),
    lambda state: state.update(monitor=3),
    lambda state: state.update(model=3),
    lambda state: state.update(other=3),
    lambda state: state["saved"][0].pop("seeds"),
]


@pytest.mark.parametrize("change", STATES, ids=map(str, range(len(STATES))))
def test_an_edit_of_a_state_is_refused(run: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = run / "checkpoints/state.json"
    state = json.loads(path.read_text())
    del state["checksum"]
    path.write_text(json.dumps({**state, "checksum": Checksums.of_values(state)}))
    Checkpoint(run)
    change(state)
    path.write_text(json.dumps(state))
    assert f"{path} is damaged: its checksum must be None" in refusal(lambda: Checkpoint(run))
    path.write_text(json.dumps({**state, "checksum": Checksums.of_values(state)}))
    assert f"{path} is damaged: " in refusal(lambda: Checkpoint(run))
    refusal(lambda: kt.training.load_model(run))
