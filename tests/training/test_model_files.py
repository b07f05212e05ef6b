"""A model's file is whole or as it was before, and a damaged one is named."""

import errno
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.errors import InputError
from keras_transformer.models import Transformer
from keras_transformer.training import load_model, save_model


@pytest.fixture
def model() -> keras.Model:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    return model


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_saved_model_is_read_back(model: keras.Model, tmp_path: Path) -> None:
    save_model(model, tmp_path / "model.keras")
    loaded = load_model(tmp_path / "model.keras")
    assert files(tmp_path) == ["model.keras"]
    assert loaded.loss == "mse"
    for old, new in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(old), ops.convert_to_numpy(new))


def test_a_transformer_needs_no_custom_objects(tmp_path: Path) -> None:
    model = Transformer(7, 5, num_layers=1, hidden_dim=4, num_heads=2, intermediate_dim=3)
    save_model(model, tmp_path / "model.keras")
    assert load_model(tmp_path / "model.keras").get_config() == model.get_config()


def test_a_full_disk_leaves_the_old_file(
    model: keras.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(path: Path, **options: Any) -> None:
        path.write_bytes(b"PK half")
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "model.keras"
    save_model(model, path)
    before = path.read_bytes()
    monkeypatch.setattr(model, "save", save)
    with pytest.raises(OSError, match="No space left on device"):
        save_model(model, path)
    assert files(tmp_path) == ["model.keras"]
    assert path.read_bytes() == before


def test_a_file_gets_its_name_when_it_is_whole(
    model: keras.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed while it writes leaves a name that nobody takes for a model."""
    save, seen = model.save, []

    def watched_save(path: Path) -> None:
        save(path)
        seen.extend(files(tmp_path))

    monkeypatch.setattr(model, "save", watched_save)
    save_model(model, tmp_path / "model.keras")
    assert len(seen) == 1
    assert seen[0].startswith(".partial-")


@pytest.mark.parametrize("content", [None, b"", b"PK half", b"\x00" * 1000])
def test_a_damaged_model_is_named(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"model\.keras cannot be read as a Keras model: ") as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
