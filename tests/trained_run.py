"""Fixtures of `tests/runs` and `tests/cli`: a run that is trained once, small enough to take seconds."""

from collections.abc import Callable
from pathlib import Path

import keras
import pytest
from click.testing import CliRunner, Result

if keras.backend.backend() != "tensorflow":
    pytest.skip("a run exports on TensorFlow", allow_module_level=True)

from keras_transformer_cli import main

SMALL = {
    "kind": "character",
    "shared": False,
    "hidden_dim": 8,
    "num_heads": 2,
    "intermediate_dim": 8,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "epochs": 1,
    "beam_size": 2,
    "max_target_length": 12,
}
"""Options of a model that trains in seconds."""

Command = Callable[..., Result]


def flags(**options: object) -> list[str]:
    """Return options as the command line has them."""
    words = {"shared": {False: ["--separate"]}}
    return [
        word
        for name, value in options.items()
        for word in words.get(name, {}).get(value, [f"--{name.replace('_', '-')}", str(value)])
    ]


def write_pairs(directory: Path) -> Path:
    """Write forty pairs: a word, and the same in capitals."""
    path = directory / "pairs.tsv"
    path.write_text("".join(f"w{n}ab\tW{n}AB\n" for n in range(40)), encoding="utf-8")
    return path


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Call a verb in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return lambda *words, **options: CliRunner().invoke(main, [str(word) for word in words], **options)


@pytest.fixture
def pairs_file(tmp_path: Path) -> Path:
    return write_pairs(tmp_path)


@pytest.fixture(scope="session")
def trained(made_once: Callable[[Callable[[Path], object]], Path]) -> Path:
    """A directory in which `train` has run, and in which nothing may be changed."""
    return made_once(_train)


def _train(directory: Path) -> None:
    places = {"run_directory": directory / "runs", "export_directory": directory / "saved_models"}
    options = {"pairs": write_pairs(directory), "name": "tiny", **places, **SMALL}
    result = CliRunner().invoke(main, ["train", *flags(**options)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    (directory / "output.txt").write_text(result.stdout, encoding="utf-8")
