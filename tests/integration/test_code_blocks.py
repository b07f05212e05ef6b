"""The commands and the Python of README.md and docs/ run page by page, with small models where they train."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import keras_transformer as kt

ROOT = Path(__file__).parents[2]


def blocks(language: str, *paths: Path) -> dict[str, list[str]]:
    """Return the fenced blocks in a language, by page."""
    fence = re.compile(rf"^```{language}\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
    return {
        path.relative_to(ROOT).as_posix(): fence.findall(path.read_text("utf-8")) for path in sorted(paths)
    }


DOCS = ROOT / "docs"
PYTHON = blocks("python", ROOT / "README.md", *DOCS.rglob("*.md"))
# The start page repeats a command of README.md; those of other pages reproduce results, which takes hours.
SHELL = blocks("sh", ROOT / "README.md", *(DOCS / "guide").glob("*.md"))

# Pages that take seconds, in the process of the tests, and those of them that take more than two.
QUICK = {
    f"docs/guide/{name}.md" for name in ("backends", "first-run", "migration", "serving", "single-layers")
}
SECONDS = {"docs/guide/backends.md", "docs/guide/serving.md", "docs/guide/single-layers.md"}
SLOW = [name for name, page in PYTHON.items() if page and name not in QUICK]
SMALLER = {
    "BeamSearch(4)": "BeamSearch(3), max_target_length=8",
    "8000": "120",
    "epochs=20": "epochs=1",
    "epochs=recipe.epochs": "epochs=1",
    "epochs=2,": "epochs=1,",
    "size, tokenizer.vocabulary_size)": "size, tokenizer.vocabulary_size, num_layers=1, hidden_dim=16)",
    "validation_count=1000": "validation_count=10",
    "dropout=recipe.dropout": "dropout=recipe.dropout, num_layers=1, hidden_dim=16",
}
NEEDS = {
    "docs/guide/other-engines.md": ("onnxruntime", "tf2onnx", "ctranslate2"),
    "docs/guide/migration.md": ("torch",),
}

SIZES = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 32}
FLAGS = "--hidden-dim 16 --num-heads 2 --intermediate-dim 32"
# `keras-transformer` for which each training is small.
PROGRAM = f"""#!/bin/sh
flags=
if [ "$1" = train ]; then
    case " $* " in
        *" --help "*) ;;
        *" --resume "*) flags="--epochs 1" ;;
        *" --config "* | *" --initial-model "*) flags="--overwrite --epochs 1" ;;
        *" --task classify "* | *" --task tag "* | *" --task generate "*)
            flags="--overwrite --epochs 1 {FLAGS} --num-layers 1" ;;
        *) flags="--overwrite --epochs 1 {FLAGS} --num-encoder-layers 1 --num-decoder-layers 1" ;;
    esac
fi
[ -z "$ARGUMENTS_ONLY" ] || exec echo "$@" $flags
exec {sys.executable} -c "from keras_transformer_cli import main; main()" "$@" $flags
"""
# Trainings of the examples, which several pages have. They run once, for all pages.
TRAINED = [
    "keras-transformer train",
    "keras-transformer train --pairs examples/data/phrases.csv --name phrases",
    "keras-transformer train --source examples/data/train.en --target examples/data/train.de --name en_de",
    "keras-transformer train --task classify --pairs examples/data/reviews.csv --name reviews",
    "keras-transformer train --task tag --pairs examples/data/names.conll --name names",
    "keras-transformer train --task generate --texts examples/data/tales.txt --name tales",
    "keras-transformer train --task frames --frames examples/data/windows.npz --name windows",
]
# A part of each command that is left out, and why.
LEFT_OUT = {
    "python -m venv": "the tests have an environment",
    "source .venv": "the tests have an environment",
    "pip install": "packages come from a network",
    "pytest": "the tests run already",
    "docker ": "it needs Docker",
    "curl ": "it needs a server",
    "model_server_double": "tests/serving starts it",
    "keras-transformer import": "weights come from a network",
    "runs/de_en": "imported from a network",
    "runs/nllb": "imported from a network",
    "runs/whisper": "imported from a network",
    "saved_models/de_en": "imported from a network",
    "KERAS_BACKEND=jax": "tests/integration/test_backends.py trains with each backend",
}


@pytest.fixture
def place(tmp_path: Path, made_once: Callable[[Callable[[Path], object]], Path]) -> Path:
    """A directory like the root of a clone in which the demo and the first translator have run."""
    return as_clone(tmp_path, made_once(make_translators))


@pytest.fixture
def full_place(place: Path, made_once: Callable[[Callable[[Path], object]], Path]) -> Path:
    """A directory like the root of a clone in which all examples have run, with small models."""
    made = made_once(train_examples)
    shutil.copytree(made / "runs", place / "runs", dirs_exist_ok=True)
    # The exports of the clone stay links to it.
    for export in (made / "saved_models").iterdir():
        if not (place / "saved_models" / export.name).exists():
            shutil.copytree(export, place / "saved_models" / export.name)
    return place


def as_clone(directory: Path, runs: Path | None = None) -> Path:
    """Make a directory with the examples and exports of the clone, which stay as they are."""
    (directory / "examples").symlink_to(ROOT / "examples")
    for export in sorted((ROOT / "saved_models").glob("*/1")):
        copy = directory / "saved_models" / export.parent.name
        copy.mkdir(parents=True)
        (copy / "1").symlink_to(export)
        shutil.copy(export.parent / "models.config", copy)
    if runs:
        shutil.copytree(runs, directory / "runs")
    return directory


def make_translators(directory: Path) -> None:
    """Save two translators that have not been trained."""
    tokenizer = kt.text.CharacterTokenizer.train(["27. jan. 2094", "17. JANÚAR 1928", "-"])
    size = tokenizer.vocabulary_size
    for name in ("dates", "en_de"):
        translator = kt.Translator(
            kt.Transformer(size, size, **SIZES),
            tokenizer,
            tokenizer,
            search=kt.decoding.GreedySearch(),  # as that of runs/dates
            max_source_length=40,
            max_target_length=12,
        )
        translator.save(directory / name)


def train_examples(directory: Path) -> None:
    """Train a small model of each example."""
    as_clone(directory)
    run_commands("\n".join(TRAINED), directory)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in SECONDS else []) for name in sorted(QUICK)],
)
def test_pages_that_only_compute(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(place)
    assert PYTHON[name]
    namespace: dict[str, object] = {"__name__": "page"}
    for number, block in enumerate(PYTHON[name]):
        exec(compile(block, f"{name}, block {number}", "exec"), namespace)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_pages_that_train(name: str, full_place: Path) -> None:
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    script = "\n".join(PYTHON[name])
    for full, small in SMALLER.items():
        script = script.replace(full, small)
    run_python(script, full_place, "tensorflow")


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_loops_of_other_backends(backend: str, tmp_path: Path) -> None:
    pytest.importorskip(backend)
    run_python("\n".join(PYTHON["docs/guide/backends.md"]), tmp_path, backend)


def run_python(script: str, directory: Path, backend: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:keras_transformer", "-c", script],
        cwd=directory,
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]


def commands(block: str) -> Iterator[str]:
    """Yield the commands of a block that can run here; each may have several lines."""
    command = ""
    for line in block.splitlines():
        command += re.sub(r"^python -m pip install \S+ && ", "", line) + "\n"
        is_open = line.endswith("\\") or command.count("'") % 2 or command.count('"') % 2
        if is_open and not line.lstrip().startswith("#"):
            continue
        words = " ".join(re.sub(r"\\\n|  # .*", "", command).split())
        if words not in TRAINED and not any(part in command for part in LEFT_OUT):
            yield command
        command = ""
    assert not command, f"this command does not end: {command}"


def run_commands(script: str, directory: Path) -> str:
    """Run a script in which `keras-transformer` trains small models, and return what it prints."""
    program = directory / "bin/keras-transformer"
    program.parent.mkdir(exist_ok=True)
    program.write_text(PROGRAM, encoding="utf-8")
    program.chmod(0o755)
    finished = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script],
        cwd=directory,
        env={**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    return finished.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, page in SHELL.items() if page])
def test_commands(name: str, full_place: Path) -> None:
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    script = "".join(command for block in SHELL[name] for command in commands(block))
    run_commands(script, full_place)


def test_commands_of_a_block() -> None:
    block = "docker run \\\n  x\nkeras-transformer train \\\n  --epochs 3  # short\necho 'a\nb'\n"
    assert [*commands(block)] == ["keras-transformer train \\\n  --epochs 3  # short\n", "echo 'a\nb'\n"]
    assert [*commands('python -m pip install ".[demo]" && keras-transformer evaluate\n')] == [
        "keras-transformer evaluate\n"
    ]
    assert [
        *commands("keras-transformer train \\\n  --task tag --pairs examples/data/names.conll --name names\n")
    ] == []


def test_pages_have_the_trainings_that_run_once() -> None:
    every = " ".join(" ".join(block for page in SHELL.values() for block in page).replace("\\\n", "").split())
    assert [command for command in TRAINED if command not in every] == []


def test_every_reason_to_leave_a_command_out_is_needed() -> None:
    every = "\n".join(block for page in SHELL.values() for block in page)
    assert [part for part in LEFT_OUT if part not in every] == []


def test_small_runs(tmp_path: Path) -> None:
    trained = run_commands("ARGUMENTS_ONLY=1 keras-transformer train --task tag --pairs x", tmp_path)
    assert trained == f"train --task tag --pairs x --overwrite --epochs 1 {FLAGS} --num-layers 1\n"
    assert run_commands("ARGUMENTS_ONLY=1 keras-transformer tag --model x", tmp_path) == "tag --model x\n"
