"""Finding and loading an export from Python."""

from pathlib import Path

import pytest

from keras_transformer.errors import InputError
from keras_transformer.export.served_model import ServedModel, saved_model_directory


def test_the_highest_version_is_taken(tmp_path: Path) -> None:
    for version in ("9", "10"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "saved_model.pb").touch()
    assert saved_model_directory(tmp_path) == tmp_path / "10"
    assert saved_model_directory(tmp_path / "9") == tmp_path / "9"


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{tmp_path} is not the directory of a SavedModel"):
        saved_model_directory(tmp_path)


def test_a_damaged_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"damaged")
    with pytest.raises(InputError, match=f"{tmp_path} cannot be loaded as a SavedModel"):
        ServedModel(tmp_path)
