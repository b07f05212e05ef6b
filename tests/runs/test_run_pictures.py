"""The attention that is drawn is that of the answer."""

from pathlib import Path

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.runs.train import answer_attention, cross_attention


def test_each_row_is_a_token_of_the_answer(trained: Path) -> None:
    translator = kt.Translator.load(trained / "runs/tiny")
    scores, source, target = cross_attention(translator, "w1ab")
    assert source == ["w", "1", "a", "b", "[END]"]
    assert scores.shape == (len(target), 5)
    np.testing.assert_allclose(scores.sum(-1), 1, atol=1e-5)
    answer = translator.translate(["w1ab"])[0]
    assert "".join(token for token in target if token != "[END]") == answer


@pytest.mark.parametrize("name", ["training.png", "attention.png"])
def test_pictures_are_png(trained: Path, name: str) -> None:
    assert (trained / "runs/tiny" / name).read_bytes().startswith(b"\x89PNG")


def test_every_map_fits_its_tokens(trained: Path) -> None:
    found = answer_attention(kt.Translator.load(trained / "runs/tiny"), "w1ab")
    source, target = len(found.source_tokens), len(found.target_tokens)
    assert found.target_tokens == ["[START]", *found.output_tokens[:-1]]
    assert {name: values.shape for name, values in found.scores.items()} == {
        "encoder/layer_1/self_attention": (2, source, source),
        "decoder/layer_1/self_attention": (2, target, target),
        "decoder/layer_1/cross_attention": (2, target, source),
    }
