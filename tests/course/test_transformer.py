"""The course's model: call styles, masks, `fit`, saving."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer import course

SOURCE = np.array([[2, 1, 4, 3, 0], [3, 1, 0, 0, 0]])
TARGET = np.array([[3, 2, 1], [5, 6, 0]])
PADDING = (SOURCE != 0).astype("float32")[:, None]
LOOK_AHEAD = np.tril(np.ones((1, 3, 3), "float32"))
MASKS = {"enc_padding_mask": PADDING, "look_ahead_mask": LOOK_AHEAD, "dec_padding_mask": PADDING}
INPUTS = {
    "input_sentence": SOURCE,
    "output_sentence": TARGET,
    **MASKS,
    "look_ahead_mask": np.repeat(LOOK_AHEAD, 2, 0),
}


def create(**options: Any) -> Any:
    return course.Transformer(1, 7, 3, 11, 5, 13, 8, 6, **{"dropout_rate": 0.0, **options})


@pytest.fixture
def model(randomize: Any) -> Any:
    model = create()
    model.build((None, None), (None, None))
    return randomize(model)


def test_probabilities_and_weights(model: Any) -> None:
    probabilities, weights = model(SOURCE, TARGET, False, PADDING, LOOK_AHEAD, PADDING)
    assert tuple(probabilities.shape) == (2, 3, 13)
    np.testing.assert_allclose(array(probabilities).sum(-1), 1, atol=1e-6)
    assert type(weights) is dict
    assert list(weights) == ["decoder_layer1_block1_self_att", "decoder_layer1_block2_decenc_att"]
    assert [tuple(each.shape) for each in weights.values()] == [(2, 3, 3, 3), (2, 3, 3, 5)]


def test_it_is_its_parts(model: Any) -> None:
    enc_output = model.encoder(SOURCE, False, PADDING)
    dec_output, _ = model.decoder(TARGET, enc_output, False, LOOK_AHEAD, PADDING)
    logits = array(dec_output) @ array(model.final_layer.kernel) + array(model.final_layer.bias)
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    probabilities, _ = model(SOURCE, TARGET, False, PADDING, LOOK_AHEAD, PADDING)
    np.testing.assert_allclose(array(probabilities), expected, atol=1e-5)


def test_call_styles(model: Any) -> None:
    expected = array(model(SOURCE, TARGET, False, PADDING, LOOK_AHEAD, PADDING)[0])
    calls = (
        model(input_sentence=SOURCE, output_sentence=TARGET, training=False, **MASKS),
        model(
            SOURCE, TARGET, False, PADDING.astype(bool), dec_padding_mask=PADDING, look_ahead_mask=LOOK_AHEAD
        ),
        model({"input_sentence": SOURCE, "output_sentence": TARGET, **MASKS}, training=False),
        model([SOURCE, TARGET], False, PADDING[:, 0], LOOK_AHEAD[0].astype(int), PADDING[:, None]),
    )
    for probabilities, _ in calls:
        np.testing.assert_array_equal(array(probabilities), expected)


@pytest.mark.parametrize("left_out", MASKS)
def test_each_mask_counts(model: Any, left_out: str) -> None:
    full, without = (array(model(SOURCE, TARGET, **{**MASKS, **more})[0]) for more in ({}, {left_out: None}))
    assert np.abs(full - without).max() > 1e-3


def test_padding_and_the_future_change_nothing(model: Any) -> None:
    def probabilities(source: Any, target: Any) -> Any:
        padding = course.create_padding_mask(source)
        return array(model(source, target, False, padding, LOOK_AHEAD, padding)[0])

    before = probabilities(SOURCE, TARGET)
    np.testing.assert_allclose(probabilities(np.pad(SOURCE, [(0, 0), (0, 3)]), TARGET), before, atol=1e-5)
    after = probabilities(SOURCE, np.concatenate([TARGET[:, :2], [[7], [8]]], axis=1))
    np.testing.assert_allclose(after[:, :2], before[:, :2], atol=1e-5)
    assert np.abs(after[:, 2] - before[:, 2]).max() > 1e-3


def test_training_by_position_turns_dropout_on() -> None:
    model = create(dropout_rate=0.5)
    calm = array(model(SOURCE, TARGET, False)[0])
    np.testing.assert_array_equal(array(model(SOURCE, TARGET)[0]), calm)
    assert np.abs(array(model(SOURCE, TARGET, True)[0]) - calm).max() > 1e-3


def test_wrong_input(model: Any) -> None:
    with pytest.raises(ValueError, match=r"`attention_mask` must have .* Received: shape=\(2, 1, 3\)"):
        model(SOURCE, TARGET, False, PADDING, LOOK_AHEAD, PADDING[:, :, :3])
    with pytest.raises(ValueError, match="num_heads=0"):
        course.Transformer(1, 7, 0, 11, 5, 13, 8, 6)
    with pytest.raises(ValueError, match=r"=1\.5"):
        create(dropout_rate=1.5)


def test_config_round_trip() -> None:
    model = create(dropout_rate=0.3, layernorm_eps=1e-5, name="mine", dtype="mixed_bfloat16")
    copied = course.Transformer.from_config(model.get_config())
    assert copied.get_config() == model.get_config()
    assert (copied.name, copied.decoder.dropout.rate) == ("mine", 0.3)
    assert copied.encoder.enc_layers[0].layernorm1.epsilon == 1e-5
    assert copied.final_layer.dtype_policy.name == "mixed_bfloat16"


def test_in_tf_function_with_unknown_sizes(model: Any, compiled: Any) -> None:
    tf = pytest.importorskip("tensorflow")

    def call(source: Any, target: Any) -> Any:
        look_ahead = course.create_look_ahead_mask(keras.ops.shape(target)[1])
        padding = course.create_padding_mask(source)
        return model(source, target, False, padding, look_ahead, padding)[0]

    specs = [tf.TensorSpec((None, None), "int64")] * 2
    outputs = compiled(call, input_signature=specs)(SOURCE, TARGET)
    np.testing.assert_allclose(array(outputs), array(call(SOURCE, TARGET)), atol=1e-5)


@pytest.mark.slow
def test_fit_then_saved_and_loaded(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    model = create()
    model.compile(keras.optimizers.Adam(0.03), course.masked_loss, metrics=["sparse_categorical_accuracy"])
    history = model.fit(INPUTS, TARGET, epochs=12, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is course.Transformer
    (probabilities, weights), (expected, _) = loaded.predict(INPUTS, verbose=0), model(INPUTS)
    np.testing.assert_allclose(probabilities, array(expected), atol=1e-6)
    assert len(weights) == 2
    results = [each.evaluate(INPUTS, TARGET, verbose=0, return_dict=True) for each in (loaded, model)]
    assert results[0] == pytest.approx(results[1], abs=1e-6)
    assert results[0]["loss"] == pytest.approx(float(array(course.masked_loss(TARGET, expected))), abs=1e-5)


@pytest.mark.slow
def test_part_of_a_functional_model(tmp_path: Path) -> None:
    source, target = keras.Input((None,), dtype="int32"), keras.Input((3,), dtype="int32")
    padding = course.create_padding_mask(source)
    probabilities, _ = create()(source, target, None, padding, course.create_look_ahead_mask(3), padding)
    model = keras.Model([source, target], probabilities)
    model.compile("sgd", course.masked_loss)
    [loss] = model.fit([SOURCE, TARGET], TARGET, verbose=0).history["loss"]
    assert tuple(probabilities.shape) == (None, 3, 13)
    assert np.isfinite(loss)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded([SOURCE, TARGET])), array(model([SOURCE, TARGET])))
