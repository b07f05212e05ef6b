"""A run from TOML and JSON and back, and what flags change in it."""

import re
from pathlib import Path

import pytest

from keras_transformer.errors import InputError
from keras_transformer.runs import DataConfig, RunConfig

TOML = """
name = "de_en"

[data]
source = "train.de.gz"
target = "train.en.gz"

[vocabulary]
size = 10000

[model]
preset = "tiny"
dropout = 0.3

[training]
peak_learning_rate = 5e-3

[decoding]
beam_size = 5
"""


def written(directory: Path, text: str) -> Path:
    path = directory / "run.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_from_toml(tmp_path: Path) -> None:
    run = RunConfig.from_toml(written(tmp_path, TOML))
    assert run.name == "de_en"
    assert run.data == DataConfig(source="train.de.gz", target="train.en.gz")
    assert run.vocabulary.size == 10000
    assert run.model.overrides() == {"dropout": 0.3}
    assert run.training.peak_learning_rate == 5e-3
    assert run.decoding.beam_size == 5
    assert run.run_directory == RunConfig().run_directory


def test_an_empty_file_is_the_default_run(tmp_path: Path) -> None:
    assert RunConfig.from_toml(str(written(tmp_path, ""))) == RunConfig()


def test_json_round_trip(tmp_path: Path) -> None:
    run = RunConfig.from_toml(written(tmp_path, TOML))
    text = run.to_json()
    assert text.endswith("}\n")
    assert RunConfig.from_json(text) == run


def test_json_must_be_a_table() -> None:
    with pytest.raises(InputError, match=r"^run\.json: must be a table of fields\. Received: \[1\]\.$"):
        RunConfig.from_json("[1]", origin="run.json")


def test_an_unknown_section_is_named_with_the_known_ones(tmp_path: Path) -> None:
    path = written(tmp_path, "[trainning]\nepochs = 3\n")
    message = (
        f"{path}: unknown field 'trainning'. Known fields: name, run_directory, export_directory, "
        "data, vocabulary, model, training, decoding."
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        RunConfig.from_toml(path)


def test_an_unknown_field_is_named_with_its_section(tmp_path: Path) -> None:
    path = written(tmp_path, "[training]\nepoch = 3\n")
    message = (
        rf"^{re.escape(str(path))}: \[training\]: unknown field 'epoch'\. Known fields: epochs, schedule, "
    )
    with pytest.raises(InputError, match=message):
        RunConfig.from_toml(path)


def test_a_value_where_a_section_belongs(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"run\.toml: \[model\]: must be a table of fields\. Received: 'tiny'\.$"
    ):
        RunConfig.from_toml(written(tmp_path, 'model = "tiny"\n'))


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "a\0"])
def test_the_name_is_no_path(name: str) -> None:
    message = f"`name` must be the name of a directory, no path. Received: name={name!r}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        RunConfig(name=name)


def test_directories_are_not_empty() -> None:
    with pytest.raises(
        ValueError, match=r"^`export_directory` must not be empty\. Received: export_directory=''\.$"
    ):
        RunConfig(export_directory="")


@pytest.mark.parametrize("name", ["subword_dropout", "target_subword_dropout"])
def test_packed_rows_have_no_room_for_subword_dropout(name: str) -> None:
    packed = RunConfig().override({"packed_length": 64, "target_subword_dropout": 0.0})
    assert packed.data.packed_length == 64
    with pytest.raises(InputError, match=f"packed_length=64, .*{name}=0.1"):
        packed.override({name: 0.1})


def test_override_sets_what_was_given(tmp_path: Path) -> None:
    run = RunConfig.from_toml(written(tmp_path, TOML))
    changed = run.override({"epochs": 2, "name": "en_de", "beam_size": None, "preset": "base"})
    assert (changed.name, changed.training.epochs, changed.model.preset) == ("en_de", 2, "base")
    assert changed.decoding == run.decoding
    assert run.name == "de_en"


def test_override_sets_a_name_in_every_section_that_has_it() -> None:
    run = RunConfig().override({"seed": 7, "max_target_length": 64})
    assert (run.data.seed, run.training.seed) == (7, 7)
    assert (run.data.max_target_length, run.decoding.max_target_length) == (64, 64)


def test_override_changes_the_two_files_together() -> None:
    assert RunConfig().override({"source": "a", "target": "b"}).data == DataConfig(source="a", target="b")


def test_override_reports_a_wrong_value() -> None:
    with pytest.raises(InputError, match=r"^`beam_size` must be at least 1\. Received: beam_size=0\.$"):
        RunConfig().override({"beam_size": 0})
    with pytest.raises(
        InputError, match=r"^`name` must be the name of a directory, no path\. Received: name='a/b'\.$"
    ):
        RunConfig().override({"name": "a/b"})


@pytest.mark.parametrize("name", ["beams", "data"])
def test_override_refuses_an_unknown_flag(name: str) -> None:
    with pytest.raises(
        ValueError, match=rf"^No section has this field\. Received: '{name}'\. Known: activation, "
    ):
        RunConfig().override({name: 3})
