"""A packed row gives each pair what it would get in a row of its own."""

from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer import Transformer

SIZES: dict[str, Any] = {"num_layers": 2, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
SOURCES = [[5, 3, 9, 2, 7], [4, 8, 6], [9, 9]]
TARGETS = [[2, 5, 11], [2, 12, 7, 8], [2, 4, 4, 4, 9, 1]]
POSITIONS: list[dict[str, Any]] = [
    {},
    {"positions": "learned", "max_length": 6},
    {"positions": "rotary"},
    {"positions": "relative", "norm_first": True},
]


def made(**options: Any) -> Any:
    keras.utils.set_random_seed(0)
    return Transformer(11, 13, **{**SIZES, **options})


def row(sentences: list[list[int]], length: int) -> np.ndarray:
    """Put token ids side by side and fill up with zeros."""
    tokens = [token for sentence in sentences for token in sentence]
    return np.array([tokens + [0] * (length - len(tokens))])


def numbers(sentences: list[list[int]]) -> list[list[int]]:
    return [[number] * len(sentence) for number, sentence in enumerate(sentences, 1)]


def packed_inputs() -> dict[str, np.ndarray]:
    return {
        "encoder_token_ids": row(SOURCES, 12),
        "decoder_token_ids": row(TARGETS, 15),
        "encoder_segment_ids": row(numbers(SOURCES), 12),
        "decoder_segment_ids": row(numbers(TARGETS), 15),
    }


@pytest.mark.parametrize("options", POSITIONS)
def test_pairs_of_a_row_do_not_see_each_other(options: dict[str, Any]) -> None:
    model = made(packed=True, **options)
    logits = array(model(packed_inputs()))[0]
    plain = made(**options)
    plain.set_weights(model.get_weights())
    start = 0
    for source, target in zip(SOURCES, TARGETS, strict=True):
        alone = plain({"encoder_token_ids": np.array([source]), "decoder_token_ids": np.array([target])})
        np.testing.assert_allclose(logits[start : start + len(target)], array(alone)[0], atol=1e-5)
        start += len(target)


def test_padding_has_no_position_that_is_not_known() -> None:
    """`packed_length` fills up with rows of padding, longer than any pair."""
    model = made(packed=True, positions="learned", max_length=6)
    inputs = packed_inputs()
    wide = {name: np.pad(ids, [(0, 1), (0, 9)]) for name, ids in inputs.items()}
    logits = array(model(wide))
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(logits[0, :13], array(model(inputs))[0, :13], atol=1e-5)
    del wide["encoder_segment_ids"], wide["decoder_segment_ids"]
    with pytest.raises(ValueError, match=r"below 6\. Received: from 0 to 20\."):
        model(wide)


def test_attention_scores_are_those_of_the_call() -> None:
    inputs = packed_inputs()
    scores = made(packed=True).attention_scores(inputs)
    source, target = (inputs[f"{side}_segment_ids"][0] for side in ("encoder", "decoder"))
    for name, rows, columns in (
        ("encoder/layer_2/self_attention", source, source),
        ("decoder/layer_2/self_attention", target, target),
        ("decoder/layer_2/cross_attention", target, source),
    ):
        seen = array(scores[name])[0].max(axis=0) > 0
        assert not (seen & (rows[:, None] != columns[None, :])).any()
        assert seen.any()


def test_without_segments_a_row_is_one_pair() -> None:
    model = made(packed=True)
    plain = made()
    plain.set_weights(model.get_weights())
    inputs = {"encoder_token_ids": row(SOURCES, 12), "decoder_token_ids": row(TARGETS, 15)}
    np.testing.assert_allclose(array(model(inputs)), array(plain(inputs)), atol=1e-5)
    together = array(model(packed_inputs()))
    assert np.abs(together - array(model(inputs)))[0, 3:13].max() > 1e-3  # segments matter


def test_trains_on_rows_and_answers_single_pairs() -> None:
    model = made(packed=True, dropout=0.0)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    labels = row(TARGETS, 15)
    losses = model.fit(packed_inputs(), labels, epochs=3, verbose=0).history["loss"]
    assert losses[2] < losses[0]
    inputs = packed_inputs()
    single = {name: inputs[name] for name in ("encoder_token_ids", "decoder_token_ids")}
    assert np.isfinite(model.evaluate(single, labels, verbose=0))


def test_is_made_again_from_its_config() -> None:
    model = made(packed=True)
    again = Transformer.from_config(model.get_config())
    again.set_weights(model.get_weights())
    np.testing.assert_array_equal(array(again(packed_inputs())), array(model(packed_inputs())))
    assert not Transformer(11, 13, **SIZES).config.packed


def test_segments_of_one_side_are_refused() -> None:
    inputs = packed_inputs()
    del inputs["encoder_segment_ids"]
    with pytest.raises(ValueError, match=r"or neither\. Received: \['decoder_segment_ids'\]"):
        made(packed=True)(inputs)


def test_segments_need_a_packed_model() -> None:
    with pytest.raises(ValueError, match="`inputs` must have the keys"):
        made()(packed_inputs())


def test_frames_are_not_packed() -> None:
    with pytest.raises(ValueError, match=r"`packed` needs token ids .*packed=True, encoder_feature_dim=3"):
        Transformer(None, 13, encoder_feature_dim=3, packed=True, **SIZES)
