"""Flags made from the fields of a run, and which model a verb asks when none is named."""

import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from keras_transformer.cli.options import ModelChoice, choose_model
from keras_transformer.cli.run_options import _FILE, described_fields, run_options
from keras_transformer.errors import InputError
from keras_transformer.runs import RunConfig
from keras_transformer_cli import main


@pytest.fixture(scope="module")
def parameters() -> dict[str, click.Option]:
    command = click.command()(run_options(lambda **flags: None))
    return {str(parameter.name): parameter for parameter in command.params}


def test_every_field_has_a_flag_with_its_docstring(parameters: dict[str, click.Option]) -> None:
    options = RunConfig.options()
    assert list(parameters) == list(options)
    for name, parameter in parameters.items():
        assert parameter.help.startswith(options[name].text.replace("`", ""))
        assert parameter.opts == [f"--{name.replace('_', '-')}"]
        assert parameter.default is None


def test_the_file_of_the_flags_is_what_the_fields_say() -> None:
    written = json.loads(_FILE.read_text(encoding="utf-8"))
    assert written == described_fields(), "write it again: python -m keras_transformer.cli.run_options"


def test_the_help_says_the_default(parameters: dict[str, click.Option]) -> None:
    assert parameters["beam_size"].help.endswith(f"[default: {RunConfig().decoding.beam_size}]")


def test_a_flag_takes_what_its_field_does(parameters: dict[str, click.Option]) -> None:
    assert parameters["epochs"].type is click.INT
    assert parameters["dropout"].type is click.FLOAT
    assert parameters["num_encoder_layers"].type is click.INT
    assert parameters["source"].type is click.STRING
    assert parameters["activation"].type is click.STRING
    assert {"translate", "generate"} <= {*parameters["task"].type.choices}
    assert {"loss", "bleu"} <= {*parameters["monitor"].type.choices}
    assert list(parameters["positions"].type.choices)[:2] == ["sinusoidal", "learned"]
    assert list(parameters["target_kind"].type.choices) == ["character", "subword", "whitespace"]


@pytest.mark.parametrize(
    ("name", "off"),
    [
        ("shared", "--separate"),
        ("lowercase", "--keep-case"),
        ("norm_first", "--norm-last"),
        ("share_embeddings", "--separate-embeddings"),
        ("deterministic", "--nondeterministic"),
        ("gated", "--no-gated"),
    ],
)
def test_a_switch_has_a_name_for_off(name: str, off: str, parameters: dict[str, click.Option]) -> None:
    assert parameters[name].secondary_opts == [off]


def test_the_only_export_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "saved_models" / "tiny").mkdir(parents=True)
    assert choose_model(None, None) == ModelChoice(Path("saved_models/tiny"), is_export=True)


def test_several_exports_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / "saved_models" / name).mkdir(parents=True)
    with pytest.raises(InputError, match="saved_models/a, saved_models/b"):
        choose_model(None, None)


def test_a_flag_of_files_may_be_repeated() -> None:
    received: list[dict[str, object]] = []
    command = click.command()(run_options(lambda **flags: received.append(flags)))
    for words in (["--source", "a"], ["--source", "a", "--source", "b"], []):
        command.main(words, standalone_mode=False)
    assert [flags["source"] for flags in received] == ["a", ["a", "b"], None]


def test_the_help_begins_with_what_a_beginner_needs() -> None:
    for verb in ("train", "plan"):
        text = CliRunner().invoke(main, [verb, "--help"]).output
        first, *tables = text.partition("Most used:")[2].split("\n\n")
        titles = [table.partition("\n")[0].strip() for table in tables if table.strip()]
        assert titles[-1] == "Other options:"
        assert "Table [model] of the TOML file:" in titles
        assert len(titles) == len(set(titles))
        flags = re.findall(r"^  (--[a-z-]+)", first, re.MULTILINE)
        beginners = ["source", "target", "pairs", "name", "task", "preset", "epochs", "size", "resume"]
        assert (
            flags == [f"--{name}" for name in (*beginners, "config")]
            if verb == "train"
            else "--batch-size" in flags
        )
        # Each flag is there once.
        command = main.get_command(click.Context(main), verb)
        shown = re.findall(r"^  (?:-h, )?(--[a-z-]+)", text, re.MULTILINE)
        assert sorted(shown) == sorted(
            parameter.opts[-1] for parameter in command.get_params(click.Context(command))
        )
