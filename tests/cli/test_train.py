"""Bad input of `train`: one line, status 2, nothing half written."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

LIMIT = ["--epochs", "1"]


def refused(run: Callable, *words: object) -> str:
    """Return the one line that a command is refused with."""
    result = run("train", *words, *LIMIT)
    assert result.exit_code == 2, result.output
    assert not Path("saved_models").exists()
    assert not list(Path().rglob("*.keras"))
    return result.stderr.splitlines()[-1]


def write(path: str, content: bytes) -> str:
    Path(path).write_bytes(content)
    return path


def test_a_missing_file(run: Callable) -> None:
    write("there", b"a\n")
    assert "missing" in refused(run, "--source", "missing", "--target", "there")


def test_an_empty_file(run: Callable) -> None:
    line = refused(run, "--source", write("a", b""), "--target", write("b", b"x\n"))
    assert "a" in line
    assert "empty" in line


def test_different_numbers_of_lines(run: Callable) -> None:
    line = refused(run, "--source", write("a", b"1\n2\n"), "--target", write("b", b"1\n2\n3\n"))
    assert "2" in line
    assert "3" in line


def test_invalid_utf8_says_where(run: Callable) -> None:
    line = refused(run, "--source", write("a", b"one\ntw\xff\n"), "--target", write("b", b"1\n2\n"))
    assert "a:2" in line


def test_a_damaged_gz(run: Callable) -> None:
    damaged = gzip.compress(b"a\n" * 100)[:-9]
    assert "a.gz" in refused(run, "--source", write("a.gz", damaged), "--target", write("b", b"1\n"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--preset", "huge"], "'huge' is not one of"),
        (["--num-heads", "3", "--hidden-dim", "8"], "num_heads=3, hidden_dim=8"),
        (["--dropout", "1.5"], "1.5"),
        (["--epochs", "0"], "0"),
        (["--hidden-dim", "wide"], "'wide' is not a valid integer"),
        (["--tokens-per-batch", "2"], "tokens_per_batch=2"),
        (["--no-such-option"], "--no-such-option"),
        (["--name", "a/b"], "name='a/b'"),
        (["--size", "3"], "size=3"),
    ],
)
def test_unknown_values(run: Callable, pairs_file: Path, words: list[str], expected: str) -> None:
    result = run("train", "--pairs", pairs_file, "--kind", "character", *words)
    assert result.exit_code == 2
    assert expected in result.stderr.splitlines()[-1]
    assert not list(Path().rglob("*.keras"))


def test_only_one_file_of_two(run: Callable) -> None:
    assert "target" in refused(run, "--source", write("a", b"1\n"))


def test_pairs_and_files_together(run: Callable, pairs_file: Path) -> None:
    files = ["--source", write("a", b"1\n"), "--target", write("b", b"1\n")]
    assert "pairs" in refused(run, "--pairs", pairs_file, *files)


def test_a_config_with_an_unknown_field(run: Callable) -> None:
    line = refused(run, "--config", write("run.toml", b"[training]\nepoch = 3\n"))
    assert "run.toml" in line
    assert "epoch" in line


def test_every_pair_too_long(run: Callable, pairs_file: Path) -> None:
    line = refused(run, "--pairs", pairs_file, "--kind", "character", "--max-target-length", "3")
    assert "38 targets over 3 tokens" in line


def test_an_engine_of_another_backend_is_refused_before_anything_is_read(run: Callable) -> None:
    line = refused(run, "--pairs", "missing.tsv", "--distribute", "data_parallel")
    assert "data_parallel is an engine of the jax backend" in line


def test_flags_of_a_resumed_run_are_not_those_of_the_dates(run: Callable) -> None:
    assert "holds no run to resume" in refused(run, "--name", "x", "--resume", "--subword-dropout", "0.1")


def test_the_same_command_finds_the_run_that_it_began(run: Callable) -> None:
    assert "runs/model holds no run" in refused(run, "--source", "a", "--target", "b", "--resume")
    assert "runs/dates holds no run" in refused(run, "--resume")


def test_nothing_to_resume(run: Callable) -> None:
    assert "holds no run to resume" in refused(run, "--resume")


def test_a_place_that_cannot_be_written(run: Callable, pairs_file: Path) -> None:
    write("file", b"no directory")
    assert "file" in refused(run, "--pairs", pairs_file, "--run-directory", "file/runs")
