"""Which model a command asks when none is named."""

from pathlib import Path

import pytest

from keras_transformer.cli.models import open_model
from keras_transformer.errors import InputError


def test_the_only_export_is_taken(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    # Other tests may have trained on in this directory, and exported the next version.
    newest = max(Path("saved_models/tiny").glob("[0-9]*"), key=lambda path: int(path.name))
    assert open_model(None, None).directory == newest


def test_several_exports_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / "saved_models" / name).mkdir(parents=True)
    with pytest.raises(InputError, match="saved_models/a, saved_models/b"):
        open_model(None, None)
