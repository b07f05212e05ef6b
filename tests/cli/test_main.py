"""Help at once, and one line for a user's mistake."""

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from keras_transformer.cli.main import main
from keras_transformer.errors import ExportError, InputError

# What `--help` must not import: each takes longer than the whole answer may.
HEAVY = ("keras", "tensorflow", "numpy", "matplotlib", "sacrebleu")

PROGRAM = """
import sys
sys.argv = ["keras-transformer", *sys.argv[1:]]
from keras_transformer.cli import main
try:
    main()
finally:
    print(*sorted(set(sys.modules) & set({heavy!r})), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "words", [["--help"], ["train", "--help"], ["--version"], ["export", "-h"], ["plot", "mask", "-h"]]
)
def test_help_imports_nothing_heavy(words: list[str], tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(heavy=HEAVY), *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout
    assert finished.stderr.strip() == ""


def test_every_verb_is_explained() -> None:
    output = CliRunner().invoke(main, ["--help"]).output
    assert all(verb in output for verb in ("train", "translate", "evaluate", "export", "plot"))


@pytest.mark.parametrize("words", [[verb] for verb in main.commands if verb != "plot"] + [["plot", "mask"]])
def test_each_command_of_the_help_has_a_line(words: list[str]) -> None:
    output = CliRunner().invoke(main, [*words, "--help"], prog_name="keras-transformer").output
    lines = [line.strip() for line in output.splitlines() if "keras-transformer" in line]
    assert len(lines) > 2  # the usage, and examples
    assert all(line.split("Usage: ")[-1].startswith("keras-transformer") for line in lines)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], click.testing.Result]:
    def run(error: BaseException) -> click.testing.Result:
        def fail() -> None:
            raise error

        monkeypatch.setitem(main.commands, "fail", click.Command("fail", callback=fail))
        return CliRunner().invoke(main, ["fail"])

    return run


def test_an_export_that_is_not_right_is_one_line_and_status_1(failing: Callable) -> None:
    result = failing(ExportError("must answer\nas the model"))
    assert (result.exit_code, result.stderr) == (1, "Error: must answer as the model\n")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InputError("pairs.tsv:3: two\nlines"), "Error: pairs.tsv:3: two lines\n"),
        (OSError(28, "No space left on device", "model.keras"), "model.keras: No space left on device"),
        (PermissionError(13, "Permission denied", "runs"), "Error: runs: Permission denied\n"),
        (KeyboardInterrupt(), "Error: Interrupted.\n"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(failing: Callable, error: BaseException, line: str) -> None:
    result = failing(error)
    assert result.exit_code == 2
    assert line in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_reader_that_has_read_enough_ends_it_without_a_word(failing: Callable) -> None:
    result = failing(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert (result.exit_code, result.output) == (1, "")


def test_letters_that_standard_output_cannot_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(main.commands, "show", click.Command("show", callback=lambda: click.echo("a → ä")))
    result = CliRunner(charset="latin-1").invoke(main, ["show"])
    assert result.stdout_bytes == "a \\u2192 ä\n".encode("latin-1")


def test_a_fault_of_ours_is_not_hidden(failing: Callable) -> None:
    result = failing(ZeroDivisionError("ours"))
    assert isinstance(result.exception, ZeroDivisionError)
