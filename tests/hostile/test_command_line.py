"""Sizes, paths, streams and signals that end a command badly: one line, and nothing lost or half written."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click.testing
import keras
import pytest

import keras_transformer as kt
from keras_transformer.cli import models
from keras_transformer.errors import ExportError, InputError
from trained_run import SMALL, flags

PROGRAM = "from keras_transformer_cli import main; main()"


def refused(result: Any, status: int = 2) -> str:
    """Return the one line that a command ends with."""
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == status, result.output
    last = result.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    return last


def content(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


# Sizes


@pytest.mark.usefixtures("small_machine")
@pytest.mark.parametrize(
    "size",
    [
        {"hidden_dim": 10**9},
        {"intermediate_dim": 2 * 10**9},
        {"num_encoder_layers": 2 * 10**9},
        {"num_decoder_layers": 2 * 10**9},
        {"hidden_dim": 6_000, "intermediate_dim": 60_000},  # the weights would fit, Adam's means would not
        {"beam_size": 10**8},
        {"max_target_length": 2**31 - 1},
    ],
)
def test_a_run_that_no_memory_holds(command: Callable, pairs_file: Path, size: dict[str, int]) -> None:
    words = flags(pairs=pairs_file, **{**SMALL, **size})
    line = refused(command("train", *words))
    assert "bytes of memory would be needed, and the machine has 4,294,967,296." in line
    assert sorted(path.name for path in Path().iterdir()) == ["pairs.tsv"]


@pytest.mark.parametrize("size", [10**12, 10**400])
def test_a_size_that_no_backend_counts_to(command: Callable, pairs_file: Path, size: int) -> None:
    line = refused(command("train", *flags(pairs=pairs_file, **{**SMALL, "hidden_dim": size})))
    assert "`hidden_dim` must be above zero and below 2147483648. Received: hidden_dim=10" in line


@pytest.mark.usefixtures("small_machine")
def test_a_model_that_no_memory_holds() -> None:
    sizes = {"num_heads": 2, "intermediate_dim": 4, "hidden_dim": 2**20}
    with pytest.raises(InputError, match=r"At least 52,776,767,848,448 bytes .*hidden_dim=1048576"):
        kt.CausalLM(2, num_layers=6, **sizes)
    with pytest.raises(InputError, match="hidden_dim=1048576"):
        kt.Transformer(2, 2, **sizes)
    with pytest.raises(InputError, match="vocabulary_size=2000000000"):
        kt.EncoderModel(2 * 10**9, hidden_dim=2, num_heads=2)


@pytest.mark.usefixtures("small_machine")
def test_a_search_that_no_memory_holds(command: Callable, trained: Path) -> None:
    model = trained / "runs/tiny"
    words = ["--pairs", trained / "pairs.tsv", "--model", model, "--beam-size", 10**8]
    assert "beam_size=100000000" in refused(command("evaluate", *words))
    for option, name in (("--source-length", "source_length"), ("--max-length", "max_length")):
        words = ["export", model, "tiny.tflite", "--format", "litert", option, 2 * 10**9]
        assert f"{name}=2000000000" in refused(command(*words))
    assert not list(Path().iterdir())


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a device without an end")
def test_a_device_without_an_end(command: Callable, trained: Path) -> None:
    model = ["--model", trained / "runs/tiny"]
    words = ["evaluate", *model, "--source", "/dev/zero", "--target", "/dev/zero"]
    for line in (
        refused(command("translate", *model, "--input", "/dev/zero")),
        refused(command(*words)),
    ):
        assert line.startswith("Error: /dev/zero: not valid UTF-8 but UTF-16, or no text: ")


def test_lines_without_an_end(limit_memory: Callable[[int], None]) -> None:
    limit_memory(2**22)
    pipe = SimpleNamespace(readline=lambda size: b"text\n", name="pipe")
    with pytest.raises(InputError, match=r"bytes of memory would be needed, .* Received: input=pipe"):
        kt.data.read_lines(pipe)


def test_pairs_without_an_end(limit_memory: Callable[[int], None], tmp_path: Path) -> None:
    limit_memory(2**22)
    bomb = gzip.compress(b"source\ttarget\n" * 100_000)
    for name in ("a.tsv.gz", "b.gz", "c.gz"):
        (tmp_path / name).write_bytes(bomb)
    for origin in (tmp_path / "a.tsv.gz", (tmp_path / "b.gz", tmp_path / "c.gz")):
        with pytest.raises(InputError, match=r"bytes of memory would be needed, .* Received: input=.*gz"):
            kt.data.read_pairs(origin)


# Paths


@pytest.mark.parametrize(
    "words",
    [
        ("translate", "--model", "", "text"),
        ("translate", "--saved-model", "", "text"),
        ("translate", "--input", ""),
        ("evaluate", "--model", "", "--pairs", "dates"),
        ("export", "", "served"),
        ("plot", "positions", "--output", ""),
        ("plot", "mask", "--output", ""),
        ("train", "--config", ""),
    ],
)
def test_an_empty_path(command: Callable, words: tuple[str, ...]) -> None:
    line = refused(command(*words))
    assert line == "Error: A path must not be empty, and hold no NUL. Received: ''."
    assert not list(Path().iterdir())


@pytest.mark.slow
def test_an_empty_path_for_what_a_model_gives(command: Callable, trained: Path) -> None:
    model = trained / "runs/tiny"
    for words in (
        ("export", model, ""),
        ("export", model, "", "--format", "litert"),
        ("export", model, "", "--format", "ctranslate2"),
        ("plot", "attention", "--model", model, "--output", "", "w1ab"),
    ):
        assert "A path must not be empty" in refused(command(*words))
    assert not list(Path().iterdir())


def test_an_empty_path_in_python(trained: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    translator = kt.Translator.load(trained / "runs/tiny")
    for use in (
        translator.save,
        translator.source_tokenizer.save,
        kt.Translator.load,
        kt.text.Tokenizer.load,
        kt.training.load_model,
        kt.training.Checkpoint,
        kt.Run.open,
        kt.Run.open(trained / "runs/tiny").export,
        lambda path: kt.data.read_pairs((path, path)),
    ):
        for path in ("", "a\0b"):
            with pytest.raises(InputError, match="A path must not be empty, and hold no NUL"):
                use(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "line",
    [
        'name = "a\\u0000b"',
        'run_directory = "a\\u0000b"',
        'export_directory = "a\\u0000b"',
        '[data]\npairs = "a\\u0000b.tsv"',
        '[data]\nsource = "a\\u0000b"\ntarget = "c"',
        '[data]\nsource = "c"\ntarget = "a\\u0000b"',
        '[data]\ntest_source = "c"\ntest_target = "a\\u0000b"',
        '[model]\ninitial_model = "a\\u0000b"',
        '[model]\nactivation = "a\\u0000b"',
    ],
)
def test_nul_in_a_toml_file(command: Callable, line: str) -> None:
    Path("run.toml").write_text(line, encoding="utf-8")
    assert "a\\x00b" in refused(command("train", "--config", "run.toml"))
    assert [path.name for path in Path().iterdir()] == ["run.toml"]


# A run that is refused


def test_going_on_and_starting_again(command: Callable, trained: Path) -> None:
    shutil.copytree(trained / "runs", "runs")
    before = content(Path("runs"))
    line = refused(command("train", "--name", "tiny", "--resume", "--overwrite"))
    assert line == "Error: A run goes on or starts again. Received: --resume and --overwrite."
    assert content(Path("runs")) == before


def test_a_refused_resume_changes_nothing(command: Callable, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "runs", "runs")
    Path("runs/tiny/pairs.json").write_text(json.dumps({"train": "0", "validation": "0"}), encoding="utf-8")
    before = content(Path("runs"))
    words = ("--name", "tiny", "--resume", "--epochs", "9")
    assert "pairs.json was changed after the run began" in refused(command("train", *words))
    assert content(Path("runs")) == before


def test_a_refused_run_leaves_nothing(command: Callable, pairs_file: Path) -> None:
    words = flags(pairs=pairs_file, **{**SMALL, "max_target_length": 3})
    assert "38 targets over 3 tokens" in refused(command("train", *words))
    assert [path.name for path in Path().iterdir()] == ["pairs.tsv"]


def test_an_export_directory_that_cannot_be_used(command: Callable, pairs_file: Path) -> None:
    Path("file").write_bytes(b"no directory")
    words = flags(pairs=pairs_file, export_directory="file/served", **SMALL)
    assert "Cannot write file/served/model: " in refused(command("train", *words))
    assert sorted(path.name for path in Path().iterdir()) == ["file", "pairs.tsv"]


@pytest.mark.slow
@pytest.mark.parametrize("error", [ExportError("is not right"), InputError("is not right")])
def test_what_was_trained_is_told_if_the_export_fails(
    error: Exception, command: Callable, pairs_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(kt.Run, "export", fail)
    result = command("train", *flags(pairs=pairs_file, **SMALL))
    assert refused(result, status=1 if isinstance(error, ExportError) else 2) == "Error: is not right"
    assert "exact match" in result.stdout
    assert "wrote runs/model/report.html" in result.stdout
    assert "keras-transformer export runs/model saved_models/model" in result.stderr
    assert kt.Run.open("runs/model").translator.translate(["w1ab"])


# Streams and signals


def program(*words: object, redirection: str = "") -> subprocess.CompletedProcess[str]:
    """Run the program in a shell, which opens and closes its streams."""
    line = f'exec "$@" {redirection}'
    command = ["/bin/sh", "-c", line, "sh", sys.executable, "-c", PROGRAM, *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("PYTHONUNBUFFERED", None)  # a user's standard output is buffered
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
@pytest.mark.parametrize(
    ("redirection", "status", "message"),
    [
        (">&-", 2, "Error: Standard output must be open for the results. Received: a closed one."),
        pytest.param(
            ">/dev/full", 2, "Error: standard output: No space left on device", marks=pytest.mark.slow
        ),
        pytest.param("<&- 2>&-", 0, "", marks=pytest.mark.slow),
    ],
)
def test_a_standard_stream_that_is_closed(
    redirection: str, status: int, message: str, tmp_path: Path
) -> None:
    if "/dev/full" in redirection and not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    picture = tmp_path / "mask.png"
    finished = program("plot", "mask", "--output", picture, redirection=redirection)
    assert finished.returncode == status, finished.stderr
    assert finished.stderr.strip().splitlines()[-1:] == ([message] if message else [])
    assert (finished.stdout == f"{picture}\n") == (status == 0)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_a_run_that_is_told_to_end(pairs_file: Path) -> None:
    words = [*flags(pairs=pairs_file, **{**SMALL, "epochs": 100_000})]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    state = pairs_file.parent / "runs/model/checkpoints/state.json"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "train", *words],
        env=environment,
        cwd=pairs_file.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        end = time.monotonic() + 300
        while not state.exists() and time.monotonic() < end:
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 2, errors
    last = errors.splitlines()[-1]
    assert last.startswith("Error: Interrupted. Epoch ")
    assert last.endswith("of 100000 is saved; go on with: keras-transformer train --name model --resume")
    checkpoint = kt.training.Checkpoint(pairs_file.parent / "runs/model")
    assert checkpoint.epoch > 0
    assert checkpoint.load_model().count_params() > 0
    assert not list((pairs_file.parent / "runs").rglob(".partial-*"))


def test_control_characters_reach_no_terminal(
    command: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = kt.tasks.Translation("\x1b[31mred\x1b]0;title\x07\x9b", 0.0)
    model = SimpleNamespace(translate_with_scores=lambda *arguments, **options: [output])
    monkeypatch.setattr(models, "open_model", lambda *names, **options: model)
    # Elsewhere an output is as it is, but for the colours that click takes out.
    assert command("translate", "--saved-model", tmp_path, "text").stdout == "red\x1b]0;title\x07\x9b\n"
    monkeypatch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda self: True, raising=False)
    assert (
        command("translate", "--saved-model", tmp_path, "text").stdout
        == r"\x1b[31mred\x1b]0;title\x07\x9b" + "\n"
    )


# Messages


def test_a_damaged_file_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    with pytest.raises(InputError, match=r"model\.keras cannot be read as a Keras model: File not found"):
        kt.training.load_model(path)
    path.write_bytes(b"half a model")
    with pytest.raises(InputError, match=r"model\.keras cannot be read .*: it is damaged"):
        kt.training.load_model(path)


def test_a_long_message_keeps_its_cause(tmp_path: Path) -> None:
    @keras.saving.register_keras_serializable(package="hostile")
    class Failing(keras.Model):
        def get_config(self) -> dict[str, object]:
            return {"padding": "x" * 2_000}

        @classmethod
        def from_config(cls, config: object, custom_objects: object = None) -> "Failing":
            raise ValueError(f"{config} {'y' * 2_000} the cause")

    model = Failing()
    model.built = True
    model.save(tmp_path / "model.keras")
    with pytest.raises(InputError, match="the cause") as raised:
        kt.training.load_model(tmp_path / "model.keras")
    assert len(str(raised.value)) < 1_000


def test_a_full_disk_has_a_path(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = kt.Translator.load(trained / "runs/tiny")

    def fail(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(keras.Model, "save", fail)
    with pytest.raises(InputError, match=rf"^Cannot write {tmp_path}/saved: No space left on device\.$"):
        translator.save(tmp_path / "saved")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: kt.layers.Encoder(2, 4, 8, hidden_dim=8),
            "Encoder has no such argument. Did you mean `intermediate_dim`? Received: {'hidden_dim': 8}.",
        ),
        (
            lambda: kt.layers.Decoder(2, 4, 64, dff=64),
            "Decoder has no such argument. Did you mean `intermediate_dim`? Received: {'dff': 64}.",
        ),
        (
            lambda: kt.layers.EncoderLayer(4, 8, d_ff=8),
            "EncoderLayer has no such argument. Did you mean `intermediate_dim`? Received: {'d_ff': 8}.",
        ),
        (
            lambda: kt.layers.DecoderLayer(4, d_ff=8),
            "DecoderLayer.__init__() missing 1 required positional argument: 'intermediate_dim'",
        ),
        (
            lambda: kt.layers.DecoderLayer(4, 8, dropout_rate=0.1),
            "DecoderLayer has no such argument. Did you mean `dropout`? Received: {'dropout_rate': 0.1}.",
        ),
        (
            lambda: kt.Transformer(9, 9, d_model=512),
            "Transformer has no such argument. Did you mean `hidden_dim`? Received: {'d_model': 512}.",
        ),
        (
            lambda: kt.Transformer(9, 9, n_heads=4),
            "Transformer has no such argument. Did you mean `num_heads`? Received: {'n_heads': 4}.",
        ),
        (
            lambda: kt.CausalLM(9, vocab_size=9),
            "CausalLM has no such argument. Did you mean `vocabulary_size`? Received: {'vocab_size': 9}.",
        ),
    ],
)
def test_arguments_of_other_libraries(make: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError) as raised:
        make()
    assert str(raised.value) == message


def test_a_model_where_a_translator_is_wanted(tmp_path: Path) -> None:
    model = kt.Transformer(9, 9, num_layers=1, hidden_dim=4, num_heads=2, intermediate_dim=4)
    for export in (kt.export.export_saved_model, kt.export.export_litert):
        with pytest.raises(
            TypeError,
            match=r"must be a .*Translator, of a model and .*\. Received: a Transformer\.",
        ):
            export(model, tmp_path / "served")
    layer = keras.layers.TextVectorization()
    with pytest.raises(ValueError, match=r"source_tokenizer\.vocabulary_size=that of a TextVectorization"):
        kt.Translator(model, layer, layer)
