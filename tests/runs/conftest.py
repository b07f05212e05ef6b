"""The command line, called in this process, and a model small enough to be trained in seconds."""

from collections.abc import Callable
from pathlib import Path

import keras
import pytest
from click.testing import CliRunner, Result

if keras.backend.backend() != "tensorflow":
    pytest.skip("the command line trains and exports on TensorFlow", allow_module_level=True)

from keras_transformer.cli import main

SMALL = [
    "--kind",
    "character",
    "--hidden-dim",
    "8",
    "--num-heads",
    "2",
    "--intermediate-dim",
    "8",
    "--num-encoder-layers",
    "1",
    "--num-decoder-layers",
    "1",
    "--epochs",
    "1",
    "--beam-size",
    "2",
    "--max-target-length",
    "12",
    "--separate",
]

Run = Callable[..., Result]
MadeOnce = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call a command in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return lambda *words, **options: CliRunner().invoke(main, [str(word) for word in words], **options)


@pytest.fixture(scope="session")
def small() -> list[str]:
    """Options of a model that trains in seconds."""
    return SMALL


@pytest.fixture
def pairs_file(tmp_path: Path) -> Path:
    """Forty pairs: a word and its letters in capitals."""
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"w{n}ab\tW{n}AB\n" for n in range(40)), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def trained(made_once: MadeOnce) -> Path:
    """A directory in which `train` has run."""
    return made_once("trained", train)


def train(directory: Path) -> None:
    path = directory / "pairs.tsv"
    path.write_text("".join(f"w{n}ab\tW{n}AB\n" for n in range(40)), encoding="utf-8")
    places = ["--run-directory", directory / "runs", "--export-directory", directory / "saved_models"]
    words = ["train", "--pairs", path, "--name", "tiny", *places, *SMALL]
    result = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    (directory / "output.txt").write_text(result.stdout, encoding="utf-8")
