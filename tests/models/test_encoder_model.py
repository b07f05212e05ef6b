import functools
import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer import EncoderModel

SIZES: dict[str, Any] = {"num_layers": 2, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
IDS = np.array([[2, 5, 11, 3, 7], [2, 12, 4, 0, 0]])
FRAMES = np.random.default_rng(2).normal(size=(2, 5, 3)).astype("float32")
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


def fresh(*sizes: Any, **options: Any) -> Any:
    """A model in which every weight, biases too, is random."""
    model = EncoderModel(*sizes, **{**SIZES, **options})
    generator = np.random.default_rng(0)
    model.set_weights([generator.normal(scale=0.5, size=weight.shape) for weight in model.weights])
    return model


made = functools.cache(fresh)  # for tests that only call a model


@pytest.mark.parametrize(
    ("num_outputs", "options", "shape"),
    [
        (None, {}, (2, 5, 8)),
        (None, {"pooling": "mean"}, (2, 8)),
        (7, {}, (2, 5, 7)),
        (7, {"pooling": "mean"}, (2, 7)),
        (7, {"pooling": "first"}, (2, 7)),
        (7, {"pooling": "max"}, (2, 7)),
        (13, {"tie_output": True}, (2, 5, 13)),
        (7, {"pooling": "first", "head_activation": "tanh"}, (2, 7)),
        (13, {"tie_output": True, "output_bias": True, "head_activation": "gelu_tanh"}, (2, 5, 13)),
    ],
)
def test_shapes(num_outputs: int | None, options: dict[str, Any], shape: tuple[int, ...]) -> None:
    model = made(13, num_outputs, **options)
    assert tuple(model(IDS).shape) == shape
    assert tuple(model.output.shape) == (None, *((None,) if len(shape) == 3 else ()), shape[-1])


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_composed_of_its_parts(pooling: str) -> None:
    model = made(13, 7, pooling=pooling)
    vectors, mask = model.encode(IDS)
    x = model.position_encoding(model.source_embedding(IDS))
    np.testing.assert_allclose(array(vectors), array(model.encoder(x, padding_mask=mask)), atol=1e-6)
    pooled = getattr(np, pooling)
    rows = [pooled(array(vectors)[0], axis=0), pooled(array(vectors)[1, :3], axis=0)]
    kernel, bias = model.output_projection.get_weights()
    np.testing.assert_allclose(array(model(IDS)), rows @ kernel + bias, atol=1e-5)


def test_the_layer_before_the_logits() -> None:
    """As BERT has it: for classes tanh over the first token, for hidden tokens GELU and a normalization."""
    model = made(13, 7, pooling="first", head_activation="tanh")
    vectors, _ = model.encode(IDS)
    (head, bias), (kernel, last) = model.head.get_weights(), model.output_projection.get_weights()
    wanted = np.tanh(array(vectors)[:, 0] @ head + bias) @ kernel + last
    np.testing.assert_allclose(array(model(IDS)), wanted, atol=1e-5)
    model = made(13, 13, tie_output=True, output_bias=True, head_activation="gelu", head_norm=True)
    vectors, _ = model.encode(IDS)
    hidden = model.head_end(model.head(vectors))
    wanted = array(hidden) @ array(model.source_embedding.embeddings).T + array(model.output_projection.bias)
    np.testing.assert_allclose(array(model(IDS)), wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head_activation": "mish?"}, "`head_activation` must be a name that Keras knows"),
        ({"head_norm": True}, "`head_norm` needs `head_activation`. Received: head_norm=True"),
        ({"output_bias": True}, "`output_bias` needs `tie_output`. Received: output_bias=True"),
    ],
)
def test_options_of_the_head(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EncoderModel(13, 7, **SIZES, **options)


def test_tied_output_is_the_table() -> None:
    model = made(13, 13, tie_output=True)
    vectors, _ = model.encode(IDS)
    table = array(model.source_embedding.embeddings)
    np.testing.assert_allclose(array(model(IDS)), array(vectors) @ table.T, atol=1e-5)
    assert len(made(13).weights) == len(model.weights)


@pytest.mark.parametrize("pooling", [None, "mean", "max", "first"])
def test_padding_changes_nothing(pooling: str | None) -> None:
    model, padded = made(13, 7, pooling=pooling), np.pad(IDS, ((0, 0), (0, 2)))
    longer, expected = array(model(padded)), array(model(IDS))
    np.testing.assert_allclose(longer if pooling else longer[:, :5], expected, atol=1e-5)
    frames = made(None, 7, feature_dim=3, pooling=pooling)
    more = np.concatenate([FRAMES, np.full((2, 2, 3), 99, "float32")], axis=1)
    longer = array(frames({"features": more, "padding_mask": np.pad(MASK, ((0, 0), (0, 2)))}))
    expected = array(frames({"features": FRAMES, "padding_mask": MASK}))
    np.testing.assert_allclose(longer if pooling else longer[:, :5], expected, atol=1e-5)


@pytest.mark.parametrize("mode", ["mean", "max"])
def test_a_row_of_padding_only(mode: str) -> None:
    model = made(13, pooling=mode)
    pooled = array(model(np.array([[0, 0, 0], [5, 3, 0]])))
    np.testing.assert_array_equal(pooled[0], 0.0)
    np.testing.assert_allclose(pooled[1], array(model(np.array([[5, 3]])))[0], atol=1e-5)
    frames = made(None, 7, feature_dim=3, pooling="mean")
    logits = frames({"features": FRAMES, "padding_mask": 0 * MASK})
    bias = frames.output_projection.get_weights()[1]
    np.testing.assert_allclose(array(logits), [bias, bias], atol=1e-6)


def test_pooling_ignores_whatever_stands_at_padding() -> None:
    model = made(13, pooling="mean")
    x = np.concatenate([model.position_encoding(np.ones((1, 2, 8))), np.full((1, 2, 8), np.nan)], axis=1)
    pooled = model.pooling(x, padding_mask=np.array([[1, 1, 0, 0]]))
    np.testing.assert_allclose(array(pooled), x[:, :2].mean(axis=1), rtol=1e-6)


def test_long_means_in_half_precision() -> None:
    """Their sum is above what float16 can hold."""
    pooling = made(13, pooling="mean", dtype="mixed_float16").pooling
    pooled = pooling(np.full((1, 4099, 8), 17.0, "float32"))
    assert keras.backend.standardize_dtype(pooled.dtype) == "float16"
    np.testing.assert_array_equal(array(pooled), np.full((1, 8), 17.0))


@pytest.mark.parametrize("mode", ["mean", "max", "first"])
def test_pooling_is_a_layer_that_is_saved(mode: str) -> None:
    pooling = made(13, pooling=mode).pooling
    assert type(pooling).from_config(pooling.get_config()).get_config() == pooling.get_config()
    embedding = keras.layers.Embedding(9, 8, mask_zero=True)
    padded, plain = embedding(np.array([[3, 4, 0, 0]])), embedding(np.array([[3, 4]]))
    np.testing.assert_allclose(array(pooling(padded)), array(pooling(plain)), atol=1e-6)
    with pytest.raises(ValueError, match=re.escape("of shape (2, 1), source of shape (2, 4, 1).")):
        made(13, pooling="mean").pooling(np.ones((2, 4, 1), "float32"), padding_mask=np.array([[1], [1]]))


def test_attention_scores() -> None:
    expected = {f"encoder/layer_{number}/self_attention": (2, 2, 5, 5) for number in (1, 2)}
    frames = made(None, 7, feature_dim=3).attention_scores({"features": FRAMES, "padding_mask": MASK})
    for scores in (made(13).attention_scores(IDS), frames):
        assert {name: tuple(score.shape) for name, score in scores.items()} == expected
        for score in scores.values():
            np.testing.assert_array_equal(array(score)[1, :, :, 3:], 0)
            np.testing.assert_allclose(array(score).sum(-1), 1.0, atol=1e-5)


def test_wrong_arguments() -> None:
    message = "Exactly one of `vocabulary_size` and `feature_dim` must be given. Received: "
    with pytest.raises(ValueError, match=re.escape(f"{message}vocabulary_size=None, feature_dim=None.")):
        EncoderModel()
    with pytest.raises(ValueError, match=re.escape(f"{message}vocabulary_size=13, feature_dim=3.")):
        EncoderModel(13, feature_dim=3)
    with pytest.raises(ValueError, match=re.escape("Received: num_outputs=7, vocabulary_size=13.")):
        EncoderModel(13, 7, tie_output=True)
    with pytest.raises(ValueError, match=re.escape("Received: num_outputs=None, vocabulary_size=None.")):
        EncoderModel(feature_dim=3, tie_output=True)
    with pytest.raises(ValueError, match=r"one of 'mean', 'max', 'first'\. Received: pooling='sum'"):
        EncoderModel(13, **SIZES, pooling="sum")


@pytest.mark.parametrize("inputs", [IDS, {"features": FRAMES, "padding_mask": MASK}])
def test_vectors_have_the_mask_of_their_source(inputs: Any) -> None:
    """Keras's layers on top, such as a mean, must not count padding."""
    model = made(13) if inputs is IDS else made(feature_dim=3)
    pooled = keras.layers.GlobalAveragePooling1D()
    mean = array(pooled(model(inputs)))
    vectors = array(model(inputs))
    np.testing.assert_allclose(mean[1], vectors[1, :3].mean(axis=0), atol=1e-6)
    if inputs is IDS:
        x = keras.Input((None,), dtype="int32")
        np.testing.assert_allclose(array(keras.Model(x, pooled(model(x)))(inputs)), mean, atol=1e-6)
    on_output = keras.Model(model.input, pooled(model.output))
    np.testing.assert_allclose(array(on_output(inputs)), mean, atol=1e-6)
    assert getattr(made(13, 7)(IDS), "_keras_mask", None) is None


def test_sizes_may_be_numbers_of_numpy() -> None:
    sizes = {name: np.int64(size) for name, size in SIZES.items()}
    model = EncoderModel(np.int64(13), IDS.max() + 1, pooling="mean", **sizes)
    assert tuple(model(IDS).shape) == (2, 13)
    assert EncoderModel.from_config(model.get_config()).config == model.config


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("num_classes", " Did you mean `num_outputs`?"),
        ("d_model", " Did you mean `hidden_dim`?"),
        ("xyz", ""),
    ],
)
def test_names_of_other_libraries_are_recognized(given: str, hint: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"EncoderModel has no such argument.{hint} Received:")):
        EncoderModel(13, **{**SIZES, given: 5})
