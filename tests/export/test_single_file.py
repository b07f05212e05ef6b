"""What is written, and that nothing is where an engine answers otherwise."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.errors import ExportError, InputError
from keras_transformer.export.fixed_size import EngineAnswer, GreedyGraph, write_single_file

SIZES: dict[str, Any] = {"source_length": 13, "max_length": 5, "batch_size": 2}


def converter(change: int) -> Any:
    """Convert for an engine that is the graph itself, but for a number added to the first token."""

    def convert(graph: GreedyGraph) -> Any:
        function = graph.function()

        def ask(source_ids: Any) -> EngineAnswer:
            answer = {name: np.array(value) for name, value in function(source_ids).items()}
            answer["token_ids"][:, 0] += change
            return EngineAnswer(**answer)

        return b"the file", ask

    return convert


def test_the_file_of_an_engine_that_answers_alike(translator: kt.Translator, tmp_path: Path) -> None:
    path = write_single_file("It", converter(0), translator, tmp_path / "tiny", ["a dog"], **SIZES)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [path.read_bytes()] == [b"the file"]


def test_a_wrong_answer_leaves_nothing(translator: kt.Translator, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="It must answer 'a dog' with"):
        write_single_file("It", converter(1), translator, tmp_path / "tiny", ["a dog"], **SIZES)
    assert list(tmp_path.iterdir()) == []


def test_another_backend_is_refused(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(InputError, match=r"needs the TensorFlow backend.* Received: KERAS_BACKEND=jax"):
        write_single_file("It", converter(0), translator, tmp_path / "tiny", [], **SIZES)
