"""The Python of README.md and docs/ runs page by page, with less data and smaller models where it trains."""

import gzip
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import keras_transformer as kt

ROOT = Path(__file__).parents[2]
PYTHON = {
    name: [
        match.group(1)
        for match in re.finditer(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    ]
    for path in sorted((ROOT / "README.md", *(ROOT / "docs").rglob("*.md")))
    for name, text in [(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))]
}
# Pages that take seconds, in the process of the tests, and those of them that take more than two.
QUICK = {
    f"docs/guide/{name}.md" for name in ("backends", "first-run", "migration", "serving", "single-layers")
}
SECONDS = {"docs/guide/backends.md", "docs/guide/serving.md", "docs/guide/single-layers.md"}
SLOW = [name for name, blocks in PYTHON.items() if blocks and name not in QUICK]
SMALLER = {
    "BeamSearch(4)": "BeamSearch(2), max_target_length=8",
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
CONFIG = """
name = "en_de"
[data]
source = "train.en.gz"
target = "train.de.gz"
[vocabulary]
size = 120
[model]
num_encoder_layers = 1
num_decoder_layers = 1
hidden_dim = 16
num_heads = 2
intermediate_dim = 32
[decoding]
beam_size = 1
max_target_length = 8
"""


@pytest.fixture
def place(tmp_path: Path, made_once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """A directory with what the pages name: texts, a configuration, runs and an export."""
    for path in made_once("documentation", make_files).iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "saved_models").mkdir()
    (tmp_path / "saved_models/dates").symlink_to(ROOT / "saved_models/dates")
    (tmp_path / "runs").mkdir()
    for trained in (tmp_path / "trained").iterdir():
        (tmp_path / "runs" / trained.name).symlink_to(trained)
    return tmp_path


def make_files(directory: Path) -> None:
    """Write texts, and two translators that know nothing yet."""
    for language in ("en", "de"):
        lines = (f"two men {language} {number} are talking .\n" for number in range(100))
        with gzip.open(directory / f"train.{language}.gz", "wt", encoding="utf-8") as file:
            file.writelines(lines)
    (directory / "multi30k.toml").write_text(CONFIG, encoding="utf-8")
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
        translator.save(directory / "trained" / name)


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
def test_pages_that_train(name: str, place: Path) -> None:
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    script = "\n".join(PYTHON[name])
    if "from_toml(" in script:
        (place / "runs/en_de").unlink()  # which the page trains
    for full, small in SMALLER.items():
        script = script.replace(full, small)
    run(script, place, "tensorflow")


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_loops_of_other_backends(backend: str, tmp_path: Path) -> None:
    pytest.importorskip(backend)
    run("\n".join(PYTHON["docs/guide/backends.md"]), tmp_path, backend)


def run(script: str, directory: Path, backend: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:keras_transformer", "-c", script],
        cwd=directory,
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
