"""Help at once, without a notice of TensorFlow, and the letters that standard output has."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from keras_transformer_cli import VERBS, main

# What takes seconds to import, and `--help` must not.
HEAVY = ("keras_transformer", "keras", "tensorflow", "numpy", "matplotlib", "sacrebleu")
PROGRAM = """
import sys
from keras_transformer_cli import main
try:
    main()
finally:
    print(*sorted(set(sys.modules) & set({heavy!r})), file=sys.stderr)
"""


def run_program(
    heavy: tuple[str, ...], words: list[str], directory: Path
) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(heavy=heavy), *words],
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=directory,
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_help_imports_nothing_heavy(words: list[str], tmp_path: Path) -> None:
    finished = run_program(HEAVY, words, tmp_path)
    assert finished.stdout
    assert finished.stderr.strip() == ""


@pytest.mark.slow
def test_the_help_of_a_verb_is_without_notices(tmp_path: Path) -> None:
    finished = run_program((), ["plot", "mask", "--help"], tmp_path)
    assert "--padding" in finished.stdout
    assert finished.stderr.strip() == ""


def test_every_verb_is_explained_by_the_first_line_of_its_own_help() -> None:
    output = " ".join(CliRunner().invoke(main, ["--help"]).output.split())
    context = click.Context(main)
    for verb, text in VERBS.items():
        assert f"{verb} {text}" in output
        assert (main.get_command(context, verb).help or "").startswith(f"{text}\n")


@pytest.mark.parametrize("words", [[verb] for verb in VERBS if verb != "plot"] + [["plot", "mask"]])
def test_each_command_of_the_help_has_a_line(words: list[str]) -> None:
    output = CliRunner().invoke(main, [*words, "--help"], prog_name="keras-transformer").output
    lines = [line.strip() for line in output.splitlines() if "keras-transformer" in line]
    assert len(lines) > 2  # the usage, and examples
    assert all(line.split("Usage: ")[-1].startswith("keras-transformer") for line in lines)


@pytest.mark.parametrize("wanted", [None, "0"])
def test_tensorflow_multiplies_by_onednn_unless_somebody_said_otherwise(
    monkeypatch: pytest.MonkeyPatch, wanted: str | None
) -> None:
    name = "TF_ENABLE_ONEDNN_OPTS"
    monkeypatch.setenv(name, wanted or "")  # so that it is as before after the test
    if wanted is None:
        monkeypatch.delenv(name)
    main.get_command(click.Context(main), "train")
    assert os.environ[name] == (wanted or "1")


def test_an_unknown_verb() -> None:
    result = CliRunner().invoke(main, ["trane"])
    assert result.exit_code == 2
    assert "No such command 'trane'" in result.stderr


def test_letters_that_standard_output_cannot_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(main.commands, "show", click.Command("show", callback=lambda: click.echo("a → ä")))
    result = CliRunner(charset="latin-1").invoke(main, ["show"])
    assert result.stdout_bytes == "a \\u2192 ä\n".encode("latin-1")
