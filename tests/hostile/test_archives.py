"""Archives that unpack to far more than they are: refused before memory is taken."""

import io
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError

BLOCK, NUM_BLOCKS = bytes(2**20), 100


def rewrite(path: Path, name: str, write: Callable[[Any], None]) -> None:
    """Write a part of an archive again."""
    with zipfile.ZipFile(path) as archive:
        parts = {part: archive.read(part) for part in archive.namelist() if part != name}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in parts.items():
            archive.writestr(part, content)
        with archive.open(name, "w", force_zip64=True) as file:
            write(file)


def write_zeros(file: Any) -> None:
    for _ in range(NUM_BLOCKS):
        file.write(BLOCK)


def write_declared(file: Any) -> None:
    content = io.BytesIO()
    with h5py.File(content, "w") as weights:
        # Nothing of it is stored.
        for number in range(4):
            weights.create_dataset(f"layers/dense_{number}/vars/0", (2**28,), "float32", chunks=(2**16,))
    file.write(content.getvalue())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    layers = [keras.Input((3,)), keras.layers.Dense(2)]
    model = keras.Sequential(layers)
    model.compile("sgd", "mse")
    model.save(tmp_path / "model.keras")
    return tmp_path / "model.keras"


@pytest.mark.parametrize(
    ("name", "write", "needed"),
    [
        ("model.weights.h5", write_zeros, NUM_BLOCKS * 2**20),
        ("config.json", write_zeros, NUM_BLOCKS * 2**20),
        ("assets/other", write_zeros, NUM_BLOCKS * 2**20),
        ("model.weights.h5", write_declared, 4 * 2**30),
    ],
)
def test_a_bomb_is_refused_with_its_size(
    model: Path, name: str, write: Callable[[Any], None], needed: int
) -> None:
    rewrite(model, name, write)
    size = model.stat().st_size
    assert size < 2**20
    tracemalloc.start()
    for load in (kt.training.load_model, lambda path: kt.training.average_weights([path])):
        with pytest.raises(
            InputError, match=rf"It has {size:,} bytes and would need ([\d,]+) bytes"
        ) as caught:
            load(model)
        received = int(str(caught.value).rsplit("need ", 1)[1].split()[0].replace(",", ""))
        assert needed <= received < needed + 2**20
    assert tracemalloc.get_traced_memory()[1] < 2**25
    tracemalloc.stop()


def test_an_archive_that_was_compressed_is_no_bomb(model: Path) -> None:
    wanted = keras.saving.load_model(model).get_weights()
    with zipfile.ZipFile(model) as archive:
        content = archive.read("model.weights.h5")
    rewrite(model, "model.weights.h5", lambda file: file.write(content))
    for received, weight in zip(kt.training.load_model(model).get_weights(), wanted, strict=True):
        np.testing.assert_array_equal(received, weight)
