"""The next version of an export."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.slow
def test_versions_go_up(command: Callable, trained: Path) -> None:
    for version, optimize in enumerate(("float32", "bfloat16"), start=1):
        result = command("export", trained / "runs/tiny", "served/tiny", "--optimize", optimize)
        assert result.exit_code == 0, result.output
        assert Path(result.stdout.strip()) == Path("served/tiny", str(version))
        # The examples of the run: a server that starts has something to warm up with.
        assert Path(result.stdout.strip(), "assets.extra/tf_serving_warmup_requests").stat().st_size > 0


@pytest.mark.slow
def test_ctranslate2(command: Callable, trained: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra `interop` is not installed")
    words = ("export", trained / "runs/tiny", "engine", "--format", "ctranslate2")
    result = command(*words)
    assert (result.exit_code, result.stdout) == (0, "engine\n"), result.output
    assert ctranslate2.contains_model("engine")
    result = command(*words)
    assert result.exit_code == 2
    assert "Cannot write engine: it already exists." in result.stderr


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("file_format", "package"), [("litert", "tensorflow"), ("onnx", "tf2onnx")])
def test_a_single_file(command: Callable, trained: Path, file_format: str, package: str) -> None:
    pytest.importorskip(package, reason="the extra `onnx` is not installed")
    words = ("export", trained / "runs/tiny", "tiny.file", "--format", file_format, "--optimize", "int8")
    result = command(*words, "--source-length", "7", "--max-length", "5", "--example", "w1ab")
    assert (result.exit_code, result.stdout) == (0, "tiny.file\n"), result.output
    assert Path("tiny.file").stat().st_size > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--source-length", "9"),
            "is for the formats litert and onnx. Received: saved_model.",
        ),
        (
            ("--format", "ctranslate2", "--threads", "2"),
            "--threads is for the format saved_model. Received: ctranslate2.",
        ),
        (
            ("--format", "litert", "--optimize", "bfloat16"),
            "--optimize must be one of float32, int8 for the format litert. Received: bfloat16.",
        ),
        (
            ("--format", "ctranslate2", "--optimize", "int8"),
            "--optimize must be one of float32 for the format ctranslate2. Received: int8.",
        ),
        (
            ("--format", "litert", "--max-length", "1"),
            "'--max-length': 1 is not in the range x>=2.",
        ),
    ],
)
def test_an_option_that_cannot_be_used(command: Callable, words: tuple[str, ...], message: str) -> None:
    result = command("export", "model", "tiny.tflite", *words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_directory_that_is_no_model(command: Callable) -> None:
    result = command("export", "nothing", "served/tiny")
    assert result.exit_code == 2
    assert "nothing is not the directory of a model" in result.stderr
    assert not Path("served").exists()


def test_an_unknown_optimization(command: Callable) -> None:
    result = command("export", "model", "served/tiny", "--optimize", "int4")
    assert result.exit_code == 2
    assert "'int4' is not one of 'float32', 'bfloat16', 'xla', 'int8'" in result.stderr
