"""The Python of README.md and docs/ runs as it stands, but for the sizes of the Keras script."""

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import keras_transformer as kt

ROOT = Path(__file__).parents[2]
SMALLER = {
    "BeamSearch(4)": "BeamSearch(2), max_target_length=8",
    "8000": "120",
    "epochs=20": "epochs=1",
    "validation_count=1000": "validation_count=10",
}


def blocks() -> list[str]:
    texts = [path.read_text("utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))]
    return re.findall(r"^```python\n(.*?)^```", "\n".join(texts), flags=re.DOTALL | re.MULTILINE)


def run(script: str, directory: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", script],
        cwd=directory,
        env={**os.environ, "KERAS_BACKEND": "tensorflow"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize(
    "name", ["kt.layers.DecoderLayer", "kt.layers.MultiHeadAttention", "course.EncoderLayer"]
)
def test_single_layers(name: str, tmp_path: Path) -> None:
    [script] = [block for block in blocks() if name in block]
    run(script, tmp_path)


@pytest.mark.slow
def test_the_script_trains_translates_and_exports(tmp_path: Path) -> None:
    [script] = [block for block in blocks() if "model.fit" in block]
    for full, small in SMALLER.items():
        assert full in script
        script = script.replace(full, small)
    for language in ("en", "de"):
        lines = (f"two men {language} {number} are talking .\n" for number in range(100))
        with gzip.open(tmp_path / f"train.{language}.gz", "wt", encoding="utf-8") as file:
            file.writelines(lines)
    run(script, tmp_path)
    assert (tmp_path / "saved_models/en_de/1/saved_model.pb").exists()


@pytest.mark.slow
def test_decoding(tmp_path: Path) -> None:
    tokenizer = kt.text.CharacterTokenizer.train(["27. jan. 2094", "17. JANÚAR 1928", "-"])
    size = tokenizer.vocabulary_size
    model = kt.Transformer(size, size, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16)
    search = kt.decoding.GreedySearch()  # as that of runs/dates
    translator = kt.Translator(model, tokenizer, tokenizer, search=search, max_target_length=12)
    translator.save(tmp_path / "runs/dates")
    [script] = [block for block in blocks() if "translator.stream(" in block]
    run(script + 'print(translator.translate(["27. jan. 2094"]))', tmp_path)
