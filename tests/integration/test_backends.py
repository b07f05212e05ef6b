"""The same saved model gives the same numbers on every backend."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer
from keras_transformer import Transformer

pytestmark = [pytest.mark.backend, pytest.mark.slow]

BACKENDS = ("tensorflow", "jax", "torch")

# Runs in a process of its own, since Keras chooses its backend when it is imported.
COMPUTE = """
import sys
import keras_transformer
import keras
import numpy as np

directory, results = sys.argv[1], {}
keep = lambda name, value: results.update({name: keras.ops.convert_to_numpy(value)})
inputs = dict(np.load(f"{directory}/inputs.npz"))
source, target = inputs["encoder_token_ids"], inputs["decoder_token_ids"]
model = keras.models.load_model(f"{directory}/model.keras")
keep("logits", model(inputs))
keep("encoder_output", model.encode(source)[0])
for name, scores in model.attention_scores(inputs).items():
    keep(name, scores)
step, cache = model.start_decoding(source, target.shape[1])
for position in range(target.shape[1]):
    logits, cache = step(target[:, position], position, cache)
    keep(f"step_{position}", logits)
    cache = cache.reorder(np.arange(len(target)))
model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
losses = [model.train_on_batch(inputs, target) for _ in range(3)]
keep("losses", np.array(losses, "float32"))
keep("logits_after_training", model(inputs))
model.save(f"{directory}/{keras.backend.backend()}.keras")
np.savez(f"{directory}/{keras.backend.backend()}.npz", **results)
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose weights are all random, and its inputs."""
    path, generator = tmp_path_factory.mktemp("backends"), np.random.default_rng(0)
    model = Transformer(
        11, 13, num_layers=2, hidden_dim=8, num_heads=2, intermediate_dim=11, dropout=0.0, norm_first=True
    )
    model.set_weights([generator.normal(scale=0.3, size=weight.shape) for weight in model.weights])
    model.save(path / "model.keras")
    np.savez(
        path / "inputs.npz",
        encoder_token_ids=np.array([[5, 3, 9, 2, 7], [4, 8, 6, 0, 0], [0, 0, 0, 0, 0]]),
        decoder_token_ids=np.array([[2, 5, 11, 3], [2, 12, 0, 0], [2, 3, 4, 5]]),
    )
    return path


def compute(backend: str, directory: Path) -> Any:
    """Runs the same lines on a backend, unless it has run already."""
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    file = directory / f"{backend}.npz"
    if not file.exists():
        [package] = keras_transformer.__path__
        environment = {"KERAS_BACKEND": backend, "PYTHONPATH": str(Path(package).parent)}
        finished = subprocess.run(
            [sys.executable, "-c", COMPUTE, str(directory)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
    return np.load(file)


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_same_numbers(backend: str, directory: Path) -> None:
    expected, results = compute(BACKENDS[0], directory), compute(backend, directory)
    assert set(results) == set(expected)
    for name in expected:
        np.testing.assert_allclose(results[name], expected[name], atol=1e-5, err_msg=name)


@pytest.mark.parametrize("backend", BACKENDS)
def test_trained_on_one_backend_loaded_here(backend: str, directory: Path) -> None:
    expected = compute(backend, directory)["logits_after_training"]
    model = keras.models.load_model(directory / f"{backend}.keras")
    logits = keras.ops.convert_to_numpy(model(dict(np.load(directory / "inputs.npz"))))
    np.testing.assert_allclose(logits, expected, atol=1e-5)
