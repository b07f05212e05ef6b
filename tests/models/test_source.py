"""Frames as the source of a Transformer, and the mask that may be left out."""

import functools
import math
import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import BeamSearch, array
from keras_transformer import CausalLM, EncoderModel, Transformer
from keras_transformer.decoding.generation import generate

SIZES: dict[str, Any] = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
FRAMES = np.random.default_rng(1).normal(size=(2, 7, 5)).astype("float32")
MASK = np.array([[1] * 7, [1, 1, 1, 0, 0, 0, 0]])
TARGET = np.array([[2, 5, 11, 3], [2, 12, 0, 0]])


def fresh(**options: Any) -> Any:
    """A model in which every weight, biases too, is random."""
    model = Transformer(None, 13, **{**SIZES, "encoder_feature_dim": 5, **options})
    generator = np.random.default_rng(0)
    model.set_weights([generator.normal(scale=0.5, size=weight.shape) for weight in model.weights])
    return model


made = functools.cache(fresh)  # for tests that only call a model


def inputs(frames: Any = FRAMES, **masks: Any) -> dict[str, Any]:
    return {"encoder_features": frames, "decoder_token_ids": TARGET, **masks}


def test_composed_of_its_parts() -> None:
    model = made()
    x = model.position_encoding(model.source_projection(FRAMES * MASK[..., None]))
    memory = model.encoder(x, padding_mask=MASK)
    y = model.position_encoding(model.target_embedding(TARGET))
    y = model.decoder(y, memory, padding_mask=TARGET > 0, encoder_padding_mask=MASK)
    expected = array(model.output_projection(y))
    np.testing.assert_allclose(array(model(inputs(encoder_padding_mask=MASK))), expected, atol=1e-5)
    np.testing.assert_allclose(array(model.encode(FRAMES, padding_mask=MASK)[0]), array(memory), atol=1e-5)
    assert tuple(model.source_projection.kernel.shape) == (5, 8)


def convolved(x: np.ndarray, kernel: np.ndarray, bias: np.ndarray, stride: int) -> np.ndarray:
    """Convolve frames, a zero on each side, and apply GELU."""
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=1)[:, ::stride]  # (b, s, w, 3)
    x = np.einsum("bswk,kwd->bsd", windows, kernel) + bias
    return x * (1 + np.vectorize(math.erf)(x / 2**0.5)) / 2


@pytest.mark.parametrize("length", [1, 6, 7])
def test_convolutions_of_frames(length: int) -> None:
    model, frames = made(source_convolutions=True), FRAMES[:, :length]
    layer = model.source_projection
    x = frames.astype("float64")
    for stride, each in enumerate((layer.first, layer.second), 1):
        kernel = array(each.kernel).reshape(3, -1, 8)
        x = convolved(x, kernel, array(each.bias), stride)
    np.testing.assert_allclose(array(layer(frames)), x, atol=1e-5)
    output, mask = model.encode(frames)
    assert tuple(output.shape) == (2, (length + 1) // 2, 8)
    assert array(mask).tolist() == [[True] * ((length + 1) // 2)] * 2
    expected = model.encoder(model.position_encoding(x.astype("float32")))
    np.testing.assert_allclose(array(output), array(expected), atol=1e-5)


@pytest.mark.parametrize("length", [3, 4])
def test_convolutions_see_no_padding(length: int) -> None:
    model, mask = made(source_convolutions=True), np.arange(7)[None] < [[7], [length]]
    frames = np.where(mask[..., None], FRAMES, np.float32("nan"))
    output, encoded = model.encode(frames, padding_mask=mask)
    alone, _ = model.encode(FRAMES[1:, :length])
    assert array(encoded).tolist() == [[True] * 4, [True, True, False, False]]
    np.testing.assert_allclose(array(output)[1, :2], array(alone)[0], atol=1e-5)
    logits = array(model(inputs(frames, encoder_padding_mask=mask)))
    target = {"encoder_features": FRAMES[1:, :length], "decoder_token_ids": TARGET[1:]}
    np.testing.assert_allclose(logits[1], array(model(target))[0], atol=1e-5)
    scores = model.attention_scores(inputs(frames, encoder_padding_mask=mask))
    assert tuple(scores["decoder/layer_1/cross_attention"].shape) == (2, 2, 4, 4)
    np.testing.assert_array_equal(array(scores["encoder/layer_1/self_attention"])[1, :, :, 2:], 0)


def test_positions_of_a_convolved_source() -> None:
    options = {"positions": "learned", "max_length": 4, "share_positions": False, "max_source_positions": 3}
    model = made(source_convolutions=True, **options)
    assert tuple(model.position_encoding.embeddings.shape) == (3, 8)
    assert tuple(model.target_position_encoding.embeddings.shape) == (4, 8)
    assert (model.max_length, model.encode(FRAMES[:, :6])[0].shape[1]) == (4, 3)
    with pytest.raises(ValueError, match=r"before position max_length=3\. Received: start=0, length=4"):
        model.encode(FRAMES)
    again = Transformer.from_config(model.get_config())
    again.set_weights(model.get_weights())
    frames = inputs(FRAMES[:, :6])
    np.testing.assert_allclose(array(again(frames)), array(model(frames)), atol=1e-6)


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "uint8", "float32"])
def test_masks_of_any_type(dtype: str) -> None:
    model = made()
    expected = array(model(inputs(encoder_padding_mask=MASK.astype(bool))))
    np.testing.assert_array_equal(array(model(inputs(encoder_padding_mask=MASK.astype(dtype)))), expected)


@pytest.mark.parametrize("masks", [{}, pytest.param({"encoder_padding_mask": None}, marks=pytest.mark.slow)])
def test_without_a_mask_every_frame_counts(masks: dict[str, Any]) -> None:
    model = made()
    expected = array(model(inputs(encoder_padding_mask=np.ones_like(MASK))))
    np.testing.assert_allclose(array(model(inputs(**masks))), expected, atol=1e-6)
    assert np.abs(array(model(inputs(encoder_padding_mask=MASK)))[1] - expected[1]).max() > 1e-2
    np.testing.assert_allclose(array(model.predict(inputs(**masks), verbose=0)), expected, atol=1e-5)
    symbolic = model({name: keras.Input(x.shape[1:]) for name, x in inputs().items()})
    assert tuple(symbolic.shape) == (None, 4, 13)


def test_frames_at_padding_change_nothing() -> None:
    model, other = made(), np.where(MASK[:, :, None] > 0, FRAMES, 99.0).astype("float32")
    expected = array(model(inputs(encoder_padding_mask=MASK)))
    np.testing.assert_allclose(array(model(inputs(other, encoder_padding_mask=MASK))), expected, atol=1e-5)
    logits = array(model(inputs(encoder_padding_mask=0 * MASK)))
    assert np.all(np.isfinite(logits))


@pytest.mark.parametrize("masks", [pytest.param({}, marks=pytest.mark.slow), {"encoder_padding_mask": MASK}])
def test_fit_on_a_dataset(masks: dict[str, Any]) -> None:
    tf = pytest.importorskip("tensorflow")
    model, data = fresh(dropout=0.0), tf.data.Dataset.from_tensors((inputs(**masks), TARGET))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01), loss)
    losses = model.fit(data.repeat(3), epochs=2, shuffle=False, verbose=0).history["loss"]
    assert losses[1] < losses[0]


@pytest.mark.slow
def test_steps_and_search() -> None:
    model = made()
    full = array(model(inputs(encoder_padding_mask=MASK)))
    step, cache = model.start_decoding(FRAMES, 4, padding_mask=MASK)
    for position in range(2):  # further on, the second target is padding
        logits, cache = step(TARGET[:, position], position, cache)
        np.testing.assert_allclose(array(logits), full[:, position], atol=1e-5)
    masked = generate(model, FRAMES, BeamSearch(2), 3, padding_mask=MASK)
    alone = generate(model, FRAMES[1:, :3], BeamSearch(2), 3)
    np.testing.assert_array_equal(array(masked.token_ids)[1], array(alone.token_ids)[0])
    np.testing.assert_allclose(array(masked.scores)[1], array(alone.scores)[0], rtol=1e-4)


def test_an_explicit_mask_wins_over_the_ids() -> None:
    model, ids = Transformer(11, 13, **SIZES), np.array([[5, 0, 3]])
    every = np.ones((1, 3))
    output, mask = model.encode(ids, padding_mask=every)
    assert array(mask).astype(int).tolist() == [[1, 1, 1]]
    assert np.abs(array(output) - array(model.encode(ids)[0])).max() > 1e-3
    _, cache = model.start_decoding(ids, 2, padding_mask=every)
    assert array(cache.encoder_padding_mask).all()


@pytest.mark.parametrize("shape", [(2, 6), (2, 1), (1, 7), (7,), (2, 1, 7)])
def test_masks_of_another_shape(shape: tuple[int, ...]) -> None:
    message = f"Received: padding_mask of shape {shape}, source of shape (2, 7, 5)."
    with pytest.raises(ValueError, match=re.escape(message)):
        made().encode(FRAMES, padding_mask=np.ones(shape))


def test_attention_scores() -> None:
    scores = made().attention_scores(inputs(encoder_padding_mask=MASK))
    assert {name: tuple(score.shape) for name, score in scores.items()} == {
        "encoder/layer_1/self_attention": (2, 2, 7, 7),
        "decoder/layer_1/self_attention": (2, 2, 4, 4),
        "decoder/layer_1/cross_attention": (2, 2, 4, 7),
    }
    for name in ("encoder/layer_1/self_attention", "decoder/layer_1/cross_attention"):
        np.testing.assert_array_equal(array(scores[name])[1, :, :, 3:], 0)
    unmasked = made().attention_scores(inputs())["decoder/layer_1/cross_attention"]
    assert np.all(array(unmasked) > 0)


def test_wrong_inputs() -> None:
    model, ids = made(), Transformer(11, 13, **SIZES)
    names = "['decoder_token_ids', 'encoder_features', 'encoder_padding_mask']"
    with pytest.raises(ValueError, match=re.escape(f"{names}. Received: keys ['decoder_token_ids'].")):
        model({"decoder_token_ids": TARGET})
    # A mask that the model has no place for is refused, not dropped.
    with pytest.raises(ValueError, match=re.escape("must have the keys ['decoder_token_ids', 'encoder_tok")):
        ids({"encoder_token_ids": TARGET, "decoder_token_ids": TARGET, "encoder_padding_mask": TARGET})
    ids.compile("adam", "sparse_categorical_crossentropy")
    for use in (ids, ids.predict, lambda pair: ids.fit(pair, TARGET, verbose=0)):
        with pytest.raises(ValueError, match=re.escape("'encoder_token_ids']. Received: tuple.")):
            use((TARGET, TARGET))
    with pytest.raises(ValueError, match=r"'encoder_features'.*found shape=\(2, 7, 3\)"):
        model(inputs(FRAMES[..., :3]))
    for shape in [(2, 4), (2, 3, 4), (5,)]:
        message = f"`encoder_inputs` must be features of shape (b, s, 5). Received: shape={shape}."
        with pytest.raises(ValueError, match=re.escape(message)):
            model.encode(np.zeros(shape, "float32"))
    wanted = "`encoder_inputs` must be integer token ids of shape (b, s). Received: "
    with pytest.raises(ValueError, match=re.escape(f"{wanted}shape=(2, 7, 5).")):
        ids.encode(FRAMES)
    for use in (ids.encode, lambda each: ids({"encoder_token_ids": each, "decoder_token_ids": TARGET})):
        with pytest.raises(
            TypeError, match=r"token_ids` must be integers. Received: fractions, dtype=float32"
        ):
            use(FRAMES[:, :, 0])
    causal = CausalLM(13, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=11)
    np.testing.assert_array_equal(array(causal([TARGET])), array(causal(TARGET)))
    with pytest.raises(TypeError, match="Received: fractions"):
        causal((FRAMES[:, :, 0],))


def test_wrong_arguments() -> None:
    message = "Exactly one of `source_vocabulary_size` and `encoder_feature_dim` must be given. Received: "
    with pytest.raises(
        ValueError, match=re.escape(f"{message}source_vocabulary_size=11, encoder_feature_dim=5.")
    ):
        Transformer(11, 13, encoder_feature_dim=5)
    with pytest.raises(ValueError, match=re.escape("size=None, encoder_feature_dim=None.")):
        Transformer(None, 13)
    wanted = "source_vocabulary_size=None, target_vocabulary_size=13, encoder_feature_dim=5."
    with pytest.raises(
        ValueError,
        match=re.escape(f"`share_embeddings` needs vocabularies of the same size. Received: {wanted}"),
    ):
        made(share_embeddings=True)
    wanted = "`source_convolutions` needs frames as a source. Received: source_convolutions=True, encoder_f"
    with pytest.raises(ValueError, match=re.escape(wanted)):
        Transformer(11, 13, source_convolutions=True)
    wanted = "Received: max_source_positions=3, share_positions=True."
    with pytest.raises(ValueError, match=re.escape(wanted)):
        made(positions="learned", max_length=4, max_source_positions=3)
    with pytest.raises(ValueError, match=re.escape("Received: encoder_feature_dim=0.")):
        made(encoder_feature_dim=0)


def test_a_mask_of_frames_that_would_be_added_is_refused() -> None:
    """Keras makes booleans of what it is given, which would turn such a mask around."""
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
    model = EncoderModel(feature_dim=3, **sizes)
    frames, mask = np.ones((1, 2, 3), "float32"), np.array([[0.0, -1e9]], "float32")
    with pytest.raises(ValueError, match="`padding_mask` must hold 1 where a key may be attended to"):
        model({"features": frames, "padding_mask": mask})
    with pytest.raises(ValueError, match=re.escape("of shape (1, 1), source of shape (1, 2, 3).")):
        model({"features": frames, "padding_mask": np.array([[1]])})
