"""One weight that is not a finite number makes every answer empty: loading finds it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer._files import Checksums
from keras_transformer.errors import InputError
from keras_transformer.export import ServedModel, export_saved_model, saved_model

NOT_FINITE = r"must hold finite weights\. Received: NaN or infinity in .*\.$"


def spoil(path: Path, value: float, number: int = -1) -> None:
    """Replace a number of the weights of a `.keras` file."""
    model = keras.saving.load_model(path)
    weight = model.weights[number]
    values = np.array(weight)
    values.flat[0] = value
    weight.assign(values)
    model.save(path)


@pytest.mark.parametrize(("value", "number"), [(np.nan, 0), (np.inf, -1), (-np.inf, -1)])
def test_a_translator_is_not_loaded(run: Path, value: float, number: int) -> None:
    spoil(run / "model.keras", value, number)
    (run / Checksums.file).unlink()
    with pytest.raises(InputError, match=rf"^{run}/model\.keras {NOT_FINITE}"):
        kt.Translator.load(run)


@pytest.mark.slow
def test_a_model_and_a_run_are_not_loaded(run: Path) -> None:
    [checkpoint] = (run / "checkpoints").glob("*.keras")
    digest = Checksums.of(checkpoint)
    spoil(checkpoint, np.nan)
    with pytest.raises(InputError, match=NOT_FINITE):
        kt.training.load_model(checkpoint)
    state = run / "checkpoints/state.json"
    table = json.loads(state.read_text())
    del table["checksum"]
    table["saved"][0]["sha256"] = Checksums.of(checkpoint)
    assert digest != Checksums.of(checkpoint)
    state.write_text(json.dumps({**table, "checksum": Checksums.of_values(table)}))
    for average_last in (None, 1):
        with pytest.raises(InputError, match=NOT_FINITE):
            kt.training.load_model(run, average_last=average_last)


@pytest.mark.slow
def test_the_command_line_says_so_in_one_line(run: Path, command: Callable[..., Any], tmp_path: Path) -> None:
    spoil(run / "model.keras", np.nan)
    (run / Checksums.file).unlink()
    Path("texts").write_text("w1ab\n")
    Path("others").write_text("W1AB\n")
    for words in (
        ["translate", "--model", run, "w1ab"],
        ["evaluate", "--model", run, "--source", "texts", "--target", "others"],
        ["plot", "attention", "--model", run, "w1ab"],
        ["export", run, tmp_path / "model.tflite", "--format", "litert"],
        ["export", run, tmp_path / "exports"],
    ):
        result = command(*words)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.output
        assert "must hold finite weights" in result.stderr
    assert not (tmp_path / "exports").exists()


@pytest.mark.slow
def test_an_export_is_not_loaded(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = kt.Translator.load(run)
    table = translator.model.source_embedding.embeddings
    values = np.array(table)
    values[0, 0] = np.nan
    table.assign(values)
    # The verification would not let it pass.
    monkeypatch.setattr(saved_model, "_verify_results", lambda *arguments, **options: None)
    export = export_saved_model(translator, tmp_path / "exports", optimize="bfloat16")
    with pytest.raises(InputError, match=NOT_FINITE):
        ServedModel(export)
