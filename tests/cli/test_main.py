"""Help at once, without a notice of TensorFlow, and the letters that standard output has."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from keras_transformer.cli import terminal
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
    heavy: tuple[str, ...], words: list[str], directory: Path, program: str = PROGRAM
) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run(
        [sys.executable, "-c", program.format(heavy=heavy), *words],
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


# Each is a help text, or a mistake that is found without the model.
EARLY = [
    *([verb, "--help"] for verb in VERBS),
    ["plot", "mask", "--help"],
    ["train", "--epochs", "many"],
    ["train", "--config", "none.toml"],
    ["translate", "a", "--input", "b"],
    ["translate", "a", "--model", "b", "--saved-model", "c"],
    ["translate", "a", "--saved-model", "none"],
    ["translate", "--saved-model", ".", "--input", "none"],
    ["translate", "a", "--saved-model", ".", "--beam-size", "3"],
    ["generate", "a", "--saved-model", ".", "--top-k", "3"],
    ["classify", "a", "--model", "none"],
    ["tag", "a"],
    ["evaluate", "--model", "none"],
    ["evaluate", "--texts", "a"],
    ["export", "none", "b"],
]
ALL_EARLY = f"""
import contextlib, io, sys
from keras_transformer_cli import main
for words in {EARLY!r}:
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            main(words)
        except SystemExit as end:
            print(end.code, file=sys.__stdout__)
    assert "loading" not in output.getvalue(), words
    assert output.getvalue().startswith("Usage: ") or "Error: " in output.getvalue(), words
print(*sorted(set(sys.modules) & set({{heavy!r}})), file=sys.stderr)
"""


def test_help_and_mistakes_come_before_keras(tmp_path: Path) -> None:
    heavy = ("keras", "tensorflow", "jax", "matplotlib", "sacrebleu", "keras_transformer.models")
    finished = run_program(heavy, [], tmp_path, ALL_EARLY)
    assert finished.stderr.strip() == ""
    num_helps = len(VERBS) + 1
    assert finished.stdout.split() == ["0"] * num_helps + ["2"] * (len(EARLY) - num_helps)


@pytest.mark.slow
def test_an_export_is_asked_without_what_it_does_not_need() -> None:
    """One line says what is loaded; TensorFlow's notices are gone; its text operations are not imported."""
    heavy = ("keras_transformer.pretrained", "keras_transformer.runs", "keras_transformer.evaluation")
    heavy += ("keras_hub", "sacrebleu", "tensorflow_datasets", "tensorflow_text", "torch", "transformers")
    words = ["translate", "--saved-model", "saved_models/dates", "vendredi 3 mars 2023"]
    finished = run_program(heavy, words, Path(__file__).parents[2])
    assert finished.stdout == "2023-03-03\n"
    assert [line for line in finished.stderr.splitlines() if line] == [
        "loading TensorFlow and saved_models/dates",
        "translating",
    ]


def test_warnings_are_shown_when_notices_are_not(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "I0000 00:00:1 1 port.cc:1] oneDNN is on.\nW0000 00:00:1 1 a.cc:1] Real.\nkeras: old\n"
    for level, shown in (("3", lines.partition("\n")[2]), ("0", lines)):
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level)
        with terminal._without_notices():
            os.write(2, lines.encode())
        assert capfd.readouterr().err == shown


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
