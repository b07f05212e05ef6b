"""Where JAX keeps what it compiled."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import pytest

import keras_transformer
from keras_transformer._backend import keep_compilations

# Trains one step, and prints the directory that the package chose, and the one that JAX uses.
PROGRAM = """
import json, sys
import jax, keras, numpy as np
import keras_transformer as kt
from keras_transformer._backend import keep_compilations

if sys.argv[1:]:
    jax.config.update("jax_compilation_cache_dir", sys.argv[1])
kept = keep_compilations()
ids = np.ones((4, 8), "int32")
model = kt.Transformer.from_preset("tiny", 50, 50, num_layers=1)
kt.training.compile_model(model, 1e-3)
model.train_on_batch({"encoder_token_ids": ids, "decoder_token_ids": ids}, ids)
used = jax.config.jax_compilation_cache_dir
print(json.dumps([kept and str(kept), used]))
"""


def train(*arguments: str, **environment: str) -> tuple[str | None, str | None]:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    [package] = keras_transformer.__path__
    known = {"KERAS_BACKEND": "jax", "PYTHONPATH": str(Path(package).parent)}
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**os.environ, **known, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    found: Any = json.loads(finished.stdout.splitlines()[-1])
    return tuple(found)


@pytest.mark.slow
@pytest.mark.backend
def test_a_second_process_compiles_nothing_again(tmp_path: Path) -> None:
    directory = tmp_path / "keras_transformer" / "jax"
    kept = []
    for _ in range(2):
        assert train(XDG_CACHE_HOME=str(tmp_path)) == (str(directory), str(directory))
        kept.append({path.name for path in directory.iterdir() if not path.name.endswith("-atime")})
    assert kept[0]
    assert kept[1] == kept[0]
    assert directory.stat().st_mode & 0o077 == 0


@pytest.mark.slow
@pytest.mark.backend
def test_what_a_user_has_set_wins(tmp_path: Path) -> None:
    own = str(tmp_path / "own")
    unused = {"XDG_CACHE_HOME": str(tmp_path / "unused")}
    for found in (train(JAX_COMPILATION_CACHE_DIR=own, **unused), train(own, **unused)):
        assert found == (None, own)
    found = train(JAX_ENABLE_COMPILATION_CACHE="false", **unused)
    assert found == (None, None)
    assert not Path(unused["XDG_CACHE_HOME"], "keras_transformer").exists()


def test_another_backend_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if keras.backend.backend() == "jax":
        pytest.skip("JAX keeps it")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert keep_compilations() is None
    assert [*tmp_path.iterdir()] == []
