"""A file that the LiteRT interpreter answers from."""

from pathlib import Path

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.export import ExportError, export_litert
from keras_transformer.export.fixed_size import GreedyGraph, LiteRTModel, greedy_translator

TEXTS = ["the rat ran", "a cat"]


def test_the_file_answers_as_greedy_search_does(translator: kt.Translator, tmp_path: Path) -> None:
    path = tmp_path / "new" / "tiny.tflite"
    written = export_litert(translator, path, ["a dog"], source_length=13, max_length=5, batch_size=2)
    assert written == path
    assert [file.name for file in path.parent.iterdir()] == ["tiny.tflite"]
    content = path.read_bytes()
    assert b"Flex" not in content  # an operation of TensorFlow, which LiteRT itself has not
    source_ids = greedy_translator(translator, 13).token_ids(TEXTS)
    padded = np.pad(source_ids, [(0, 0), (0, 13 - source_ids.shape[1])])
    answer = LiteRTModel(content).answer(padded)
    wanted = GreedyGraph(greedy_translator(translator, 13, 5), 2).function()(padded)
    np.testing.assert_array_equal(answer.token_ids, wanted["token_ids"])
    np.testing.assert_allclose(answer.score, wanted["score"], rtol=1e-4)


def test_an_operation_that_litert_lacks_is_named(translator: kt.Translator, tmp_path: Path) -> None:
    model = translator.model.with_dtype("mixed_bfloat16")
    half = kt.Translator(model, translator.source_tokenizer, translator.target_tokenizer)
    with pytest.raises(ExportError, match=r"LiteRT must have every operation .* Received: .*Gather"):
        export_litert(half, tmp_path / "tiny.tflite", source_length=5, max_length=3)
    assert list(tmp_path.iterdir()) == []
