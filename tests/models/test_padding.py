"""What is padding may hold anything, stand anywhere, and be told in each of the ways that Keras has."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer import CausalLM, EncoderModel, Transformer
from keras_transformer.decoding import GreedySearch, generate
from keras_transformer.layers import CachedDecoder, Decoder, Encoder, EncoderLayer, MultiHeadAttention
from keras_transformer.types import SpecialIds

SIZES: dict[str, Any] = {"num_layers": 2, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
POSITIONS: list[dict[str, Any]] = [
    {},
    {"positions": "sinusoidal_concatenated"},
    {"positions": "learned", "max_length": 9},
    {"positions": "learned", "max_length": 9, "share_positions": False, "max_source_positions": 6},
    {"positions": "rotary"},
    {"positions": "relative"},
    {"positions": "relative_keys"},
    {"positions": "relative_sinusoidal"},
]
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
LOST = [np.nan, np.inf, -np.inf]


def padded(ids: list[list[int]], length: int, side: str) -> np.ndarray:
    return keras.utils.pad_sequences(ids, length, padding=side)


@pytest.mark.parametrize("options", POSITIONS, ids=str)
def test_ids_that_keras_pads_have_the_same_logits_on_either_side(options: dict[str, Any]) -> None:
    """`pad_sequences` pads at the left unless it is told otherwise."""
    model = Transformer(13, 13, **SIZES, **options)
    left, right = (
        array(
            model(
                {
                    "encoder_token_ids": padded([[5, 6, 3], [4, 8, 9, 7, 2]], 6, side),
                    "decoder_token_ids": padded([[2, 7], [2, 5, 6, 9]], 5, side),
                }
            )
        )
        for side in ("pre", "post")
    )
    np.testing.assert_allclose(left[0, 3:], right[0, :2], atol=1e-5)
    np.testing.assert_allclose(left[1, 1:], right[1, :4], atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
def test_a_pooled_sequence_may_begin_with_padding(pooling: str) -> None:
    model = EncoderModel(13, 3, pooling=pooling, **SIZES)
    left, right = (array(model(padded([[5, 6, 3]], 6, side))) for side in ("pre", "post"))
    np.testing.assert_allclose(left, right, atol=1e-5)


@pytest.mark.slow
def test_fit_and_generate_on_either_side() -> None:
    model = Transformer(13, 13, dropout=0.0, **SIZES)
    weights, outputs = model.get_weights(), {}
    for side in ("pre", "post"):
        model.set_weights(weights)
        model.compile("sgd", "sparse_categorical_crossentropy", weighted_metrics=[])
        sources = padded([[5, 6, 3], [4, 8, 9, 7, 2]], 6, side)
        targets, labels = padded([[2, 7], [2, 5, 6]], 4, side), padded([[7, 3], [5, 6, 3]], 4, side)
        inputs = {"encoder_token_ids": sources, "decoder_token_ids": targets}
        loss = model.fit(inputs, labels, sample_weight=labels > 0, verbose=0).history["loss"]
        search = GreedySearch(special_ids=SpecialIds())
        outputs[side] = [loss, array(generate(model, sources, search, 6).scores), *model.get_weights()]
    for left, right in zip(outputs["pre"], outputs["post"], strict=True):
        np.testing.assert_allclose(left, right, atol=1e-5)


def test_prompts_that_are_padded_are_refused() -> None:
    model, search = CausalLM(13, **SIZES), GreedySearch(special_ids=SpecialIds())
    with pytest.raises(ValueError, match=r"Prompts must be without padding; .* Received: id 0 in prompt 1"):
        generate(model, padded([[2, 5, 7], [2, 5]], 3, "pre"), search, 5)


@pytest.mark.parametrize("kind", [CausalLM, lambda size, **options: EncoderModel(size, 5, **options)])
def test_a_mask_makes_padding_of_ids(kind: Callable[..., Any]) -> None:
    model, ids = kind(13, **SIZES), np.array([[5, 6, 3, 4, 7], [1, 2, 3, 4, 5]])
    found, expected = array(model(ids, mask=MASK)), array(model(ids * MASK))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    with pytest.raises(ValueError, match=r"`mask` must have the shape \(b, s\)"):
        model(ids, mask=MASK[:, :3])


def test_a_mask_of_frames_is_read_in_each_way_that_keras_has() -> None:
    model, frames = EncoderModel(None, 3, feature_dim=4, pooling="mean", **SIZES), draw(2, 5, 4)
    expected = array(model({"features": frames, "padding_mask": MASK}))
    np.testing.assert_allclose(array(model(frames, mask=MASK)), expected, atol=1e-6)
    masking = keras.layers.Masking()
    zeros = frames * MASK[..., None]
    np.testing.assert_allclose(array(model(masking(zeros))), expected, atol=1e-6)
    inputs = keras.Input((None, 4))
    outer = keras.Model(inputs, model(masking(inputs)))
    np.testing.assert_allclose(array(outer(zeros)), expected, atol=1e-6)
    assert np.abs(array(model(frames)) - expected).max() > 1e-3


def test_one_mask_says_nothing_of_two_inputs() -> None:
    inputs = {"encoder_token_ids": MASK, "decoder_token_ids": MASK}
    with pytest.raises(ValueError, match="`mask` must be None for several inputs"):
        Transformer(13, 13, **SIZES)(inputs, mask=MASK)


@pytest.mark.parametrize("value", LOST)
@pytest.mark.parametrize("make", [lambda: EncoderLayer(2, 11), lambda: Encoder(2, 2, 11, norm_first=True)])
def test_layers_do_not_see_what_a_mask_hides(make: Callable[[], Any], value: float) -> None:
    layer, x = make(), draw(2, 5, 8)
    expected = array(layer(x, padding_mask=MASK))
    found = array(layer(np.where(MASK[..., None], x, value).astype("float32"), padding_mask=MASK))
    np.testing.assert_allclose(found[MASK > 0], expected[MASK > 0], atol=1e-6)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("value", LOST)
@pytest.mark.parametrize("name", ["padding_mask", "attention_mask", "value_mask"])
def test_attention_does_not_see_what_a_mask_hides(name: str, value: float) -> None:
    layer, query, x = MultiHeadAttention(2, 4), draw(2, 3, 8), draw(2, 5, 8, seed=1)
    mask = {name: MASK[:, None, :] if name == "attention_mask" else MASK}
    expected = array(layer(query, x, **mask))
    lost = np.where(MASK[..., None], x, value).astype("float32")
    np.testing.assert_allclose(array(layer(query, lost, **mask)), expected, atol=1e-6)
    with_scores, _ = layer(query, lost, return_attention_scores=True, **mask)
    np.testing.assert_allclose(array(with_scores), expected, atol=1e-6)


@pytest.mark.parametrize("value", LOST)
def test_a_decoder_does_not_see_it_either(value: float) -> None:
    decoder, x, memory = Decoder(2, 2, 11), draw(2, 4, 8), draw(2, 5, 6, seed=1)
    lost = np.where(MASK[..., None], memory, value).astype("float32")
    expected = array(decoder(x, memory, encoder_padding_mask=MASK))
    np.testing.assert_allclose(array(decoder(x, lost, encoder_padding_mask=MASK)), expected, atol=1e-6)
    cached = CachedDecoder(decoder)
    cache = cached.create_cache(lost, MASK > 0, 4)
    for position in range(4):
        output, cache = cached.step(x[:, position : position + 1], position, cache)
        np.testing.assert_allclose(array(output)[:, 0], expected[:, position], atol=1e-5)


@pytest.mark.parametrize(
    ("value", "convolutions"),
    [
        (np.nan, True),
        *(pytest.param(value, False, marks=pytest.mark.slow) for value in LOST),
        *(pytest.param(value, True, marks=pytest.mark.slow) for value in LOST[1:]),
    ],
)
def test_frames_of_padding_leave_a_model_finite(value: float, convolutions: bool) -> None:
    options = {"encoder_feature_dim": 4, "source_convolutions": convolutions, "dropout": 0.0}
    model, frames = Transformer(None, 13, **SIZES, **options), draw(2, 5, 4)
    lost = np.where(MASK[..., None], frames, value).astype("float32")
    inputs = {"encoder_padding_mask": MASK, "decoder_token_ids": np.array([[2, 5], [2, 7]])}
    expected = array(model({"encoder_features": frames, **inputs}))
    np.testing.assert_allclose(array(model({"encoder_features": lost, **inputs})), expected, atol=1e-5)
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit({"encoder_features": lost, **inputs}, np.array([[5, 3], [7, 3]]), verbose=0)
    assert all(np.isfinite(array(weight)).all() for weight in model.weights)
    search = GreedySearch(special_ids=SpecialIds())
    scores = [
        array(generate(model, each, search, 5, padding_mask=MASK > 0).scores) for each in (frames, lost)
    ]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-5)


LOOK_AHEAD = np.triu(np.ones((4, 4)), 1)  # of the TensorFlow tutorial, whose 1 hides


@pytest.mark.parametrize(
    "make", [lambda: MultiHeadAttention(2, 4), lambda: EncoderLayer(2, 11), lambda: Encoder(2, 2, 11)]
)
@pytest.mark.parametrize(
    "mask", [{"attention_mask": LOOK_AHEAD}, {"attention_mask": LOOK_AHEAD > 0}, {"padding_mask": [[0] * 4]}]
)
def test_an_inverted_mask_is_told_once(make: Callable[[], Any], mask: dict[str, Any]) -> None:
    layer, x = make(), draw(1, 4, 8)
    inputs = (x, x) if isinstance(layer, MultiHeadAttention) else (x,)
    mask = {name: np.array(value) for name, value in mask.items()}
    with pytest.warns(UserWarning, match="hides all keys from a query") as told:
        layer(*inputs, **mask)
    found = [each for each in told if "hides all keys" in str(each.message)]  # torch has warnings of its own
    assert len(found) == getattr(layer, "num_layers", 1)
    layer(*inputs, **mask)  # without a warning


def test_one_example_of_padding_is_no_mistake() -> None:
    EncoderLayer(2, 11)(draw(2, 5, 8), padding_mask=MASK * [[0], [1]])


def test_a_right_mask_hides_no_inverted_one() -> None:
    masks = {"attention_mask": np.ones((5, 5)), "padding_mask": np.zeros((2, 5))}
    with pytest.warns(UserWarning, match="`padding_mask` hides all keys"):
        EncoderLayer(2, 11)(draw(2, 5, 8), **masks)
