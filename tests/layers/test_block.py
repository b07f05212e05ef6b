import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.layers import Decoder, DecoderLayer, Encoder, EncoderLayer

OPTIONS: dict[str, Any] = {
    "num_heads": 2,
    "intermediate_dim": 11,
    "head_dim": 6,
    "activation": "gelu_tanh",
    "gated": True,
    "use_bias": False,
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "intermediate_dropout": 0.3,
    "norm_first": True,
    "normalization": "rms",
    "layer_norm_epsilon": 1e-5,
    "num_key_value_heads": 1,
    "positions": "rotary",
}


def test_options_reach_the_parts() -> None:
    layer = DecoderLayer(**OPTIONS)
    layer.build((None, None, 8), (None, None, 5))
    assert {layer.self_attention.dropout, layer.cross_attention.dropout} == {0.2}
    assert {layer.self_attention.key_dim, layer.cross_attention.key_dim} == {6}
    assert [weight.path for weight in layer.weights if weight.name == "bias"] == []
    assert {layer.self_attention.num_key_value_heads, layer.cross_attention.num_key_value_heads} == {1}
    assert (layer.self_attention.positions, layer.cross_attention.positions) == ("rotary", None)
    assert layer.feed_forward.dropout == 0.3
    assert layer.feed_forward.gated
    assert layer.feed_forward.get_config()["activation"] == "gelu_tanh"
    for residual in (
        layer.self_attention_residual,
        layer.cross_attention_residual,
        layer.feed_forward_residual,
    ):
        assert (residual.output_dropout.rate, residual.norm_first, residual.norm.epsilon) == (0.1, True, 1e-5)
        assert isinstance(residual.norm, keras.layers.RMSNormalization)


@pytest.mark.parametrize("stack", [Encoder, Decoder])
def test_options_reach_the_layers_of_a_stack(stack: Any) -> None:
    layer = stack(3, **OPTIONS)
    layer(*[np.zeros((1, 5, 8), "float32")] * (1 if stack is Encoder else 2))
    assert [inner.name for inner in layer.layers] == ["layer_1", "layer_2", "layer_3"]
    assert all(OPTIONS.items() <= inner.get_config().items() for inner in layer.layers)


def test_the_policy_reaches_the_parts() -> None:
    encoder = Encoder(1, 2, 11, norm_first=True, dtype="mixed_bfloat16")
    encoder.build((None, None, 8))
    inner = [layer for layer in encoder._flatten_layers() if layer.compute_dtype != "bfloat16"]
    assert inner == []


def test_heads_are_as_wide_together_as_the_input_unless_their_width_is_given() -> None:
    layer = EncoderLayer(2, 11)
    layer.build((None, None, 8))
    assert layer.self_attention.key_dim == 4
    layer, x = EncoderLayer(3, 11, head_dim=5), draw(2, 4, 8)
    assert tuple(layer(x).shape) == (2, 4, 8)
    assert layer.self_attention.query_dense.kernel.shape == (8, 3, 5)
    for head_dim, message in ((0, "must be above zero"), (-2, "must be above zero")):
        with pytest.raises(ValueError, match=re.escape(f"`head_dim` {message}. Received: head_dim=")):
            EncoderLayer(2, 11, head_dim=head_dim)


@pytest.mark.parametrize("make", [EncoderLayer, DecoderLayer])
def test_heads_that_do_not_divide_the_width(make: Any) -> None:
    message = "`num_heads` must divide `hidden_dim`. Received: num_heads=3, hidden_dim=8."
    inputs = [np.zeros((1, 5, 8), "float32")] * (1 if make is EncoderLayer else 2)
    with pytest.raises(ValueError, match=re.escape(message)):
        make(3, 11)(*inputs)


def test_unknown_width() -> None:
    message = "The last axis of `inputs` must have a known size. Received: shape=(None, None, None)."
    with pytest.raises(ValueError, match=re.escape(message)):
        EncoderLayer(2, 11).build((None, None, None))


@pytest.mark.parametrize("make", [EncoderLayer, DecoderLayer])
@pytest.mark.parametrize("option", ["dropout", "attention_dropout", "intermediate_dropout"])
def test_rates_out_of_range(make: Any, option: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"`{option}` must be at least 0 and below 1. Received:")):
        make(2, 11, **{option: 1.2})


@pytest.mark.parametrize("make", [EncoderLayer, DecoderLayer])
@pytest.mark.parametrize("option", ["num_heads", "intermediate_dim"])
def test_sizes_not_above_zero(make: Any, option: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"`{option}` must be above zero. Received: {option}=0.")):
        make(**{"num_heads": 2, "intermediate_dim": 11, option: 0})


def test_a_kind_of_normalization_that_is_not_there() -> None:
    message = "`normalization` must be one of 'layer', 'rms'. Received: normalization='batch'."
    with pytest.raises(ValueError, match=re.escape(message)):
        EncoderLayer(2, 11, normalization="batch")


@pytest.mark.parametrize("stack", [Encoder, Decoder])
@pytest.mark.parametrize("num_layers", [0, -1])
def test_stacks_without_layers(stack: Any, num_layers: int) -> None:
    with pytest.raises(ValueError, match=re.escape(f"Received: num_layers={num_layers}.")):
        stack(num_layers, 2, 11)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("make", [EncoderLayer, DecoderLayer])
def test_another_width_than_that_of_the_weights(make: Any, norm_first: bool) -> None:
    layer = make(2, 11, norm_first=norm_first)
    layer(np.zeros((2, 5, 8), "float32"))
    message = (
        "The last axis of `inputs` must have the size of the layer's weights, 8. Received: shape=(2, 5, 16)"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        layer(np.zeros((2, 5, 16), "float32"))


@pytest.mark.parametrize("make", [EncoderLayer, DecoderLayer, Encoder, Decoder])
def test_token_ids_and_examples_are_refused(make: Any) -> None:
    layer = make(*[1] * (make in (Encoder, Decoder)), 2, 11)
    message = (
        "`inputs` must be vectors, (b, t, d); token ids go through an embedding first, images through "
        "`keras.layers.Reshape`, sequences of sequences through `keras.layers.TimeDistributed`. "
        "Received: shape="
    )
    ids = (np.ones((2, 6), "int32"), keras.ops.ones((2, 6)), keras.Input((6,), dtype="int32"))
    for inputs in (*ids, np.ones((2, 3, 5, 6), "float32"), keras.Input((3, 5, 6))):
        with pytest.raises(ValueError, match=re.escape(f"{message}{tuple(inputs.shape)}.")):
            layer(inputs)
    assert not layer.built
    layer(np.ones((1, 2, 6), "float32"))
    with pytest.raises(ValueError, match=re.escape(f"{message}(2, 6).")):
        layer(np.ones((2, 6), "float32"))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("make", [EncoderLayer, DecoderLayer])
def test_integers_of_rank_3_are_numbers(make: Any, norm_first: bool) -> None:
    layer, x = make(2, 11, norm_first=norm_first), np.arange(24).reshape(1, 3, 8).astype("int32")
    actual, expected = (keras.ops.convert_to_numpy(layer(inputs)) for inputs in (x, x.astype("float32")))
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("final_norm", [True, False, None])
def test_a_stack_ends_with_a_normalization_if_wanted(norm_first: bool, final_norm: bool | None) -> None:
    stack = Encoder(1, 2, 16, norm_first=norm_first, final_norm=final_norm)
    x = 10 * draw(2, 5, 8)
    expected = stack(x)
    is_normalized = norm_first if final_norm is None else final_norm
    assert len(stack.final_normalization.weights) == (2 if is_normalized else 0)
    layer = stack.layers[0](x)
    # To normalize what is normalized changes it by rounding only.
    assert np.allclose(array(layer), array(expected), atol=1e-5) != (is_normalized and norm_first)


def test_initializers_reach_every_kernel_and_bias() -> None:
    for stack in (Encoder, Decoder):
        layer = stack(1, 2, 16, kernel_initializer="ones", bias_initializer=keras.initializers.Constant(3.0))
        layer(draw(2, 5, 8))
        for weight in layer.weights:
            if weight.name in ("gamma", "beta"):
                continue
            np.testing.assert_array_equal(array(weight), 3.0 if weight.name.endswith("bias") else 1.0)


def test_shared_layers(tmp_path: Path) -> None:
    options: dict[str, Any] = {**OPTIONS, "dropout": 0.0, "num_layers": 3, "share_layers": True}
    inputs, memory = keras.Input((None, 8)), keras.Input((None, 5))
    stack = Decoder(**options)
    model = keras.Model([inputs, memory], stack(inputs, memory))
    x, source = draw(2, 4, 8), draw(2, 6, 5, seed=1)
    [layer] = {id(each): each for each in stack.layers}.values()
    expected = x
    for _ in range(3):
        expected = layer(expected, source)
    expected = array(stack.final_normalization(expected))
    np.testing.assert_allclose(array(model([x, source])), expected, atol=1e-6)
    assert len(model.trainable_weights) == len(layer.weights) + 1  # and the scale of the final normalization
    assert {*stack.attention_scores(x, source)} == {
        f"layer_{number}/{name}_attention" for number in (1, 2, 3) for name in ("self", "cross")
    }

    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(array(loaded([x, source])), expected, atol=1e-6)
    assert len(loaded.weights) == len(model.weights)
    with pytest.raises(TypeError, match="share_layers"):
        Encoder(**options | {"share_layers": 2})


FOUR = [EncoderLayer(2, 16), DecoderLayer(2, 16), Encoder(2, 2, 16), Decoder(2, 2, 16)]


@pytest.mark.parametrize("layer", FOUR, ids=lambda layer: type(layer).__name__)
def test_a_wrapper_of_keras_hands_the_mask_over(layer: Any) -> None:
    layer = type(layer).from_config(layer.get_config())
    token_ids = np.array([[[1, 2, 3, 0, 0], [0, 0, 4, 5, 6]]])
    vectors = keras.layers.Embedding(9, 8, mask_zero=True)(token_ids)
    outputs = array(keras.layers.TimeDistributed(layer)(vectors))
    for number, tokens in ((0, slice(0, 3)), (1, slice(2, 5))):
        alone = array(layer(array(vectors)[:, number, tokens]))
        np.testing.assert_allclose(outputs[:, number, tokens], alone, atol=1e-5)


@pytest.mark.parametrize("layer", FOUR, ids=lambda layer: type(layer).__name__)
def test_a_mask_may_be_a_list(layer: Any) -> None:
    layer = type(layer).from_config(layer.get_config())
    x, mask = draw(2, 3, 8), [[1, 1, 0], [0, 1, 1]]
    np.testing.assert_array_equal(
        array(layer(x, padding_mask=mask)), array(layer(x, padding_mask=np.array(mask)))
    )


@pytest.mark.parametrize("layer", FOUR, ids=lambda layer: type(layer).__name__)
def test_the_shape_is_known_before_the_weights(layer: Any) -> None:
    layer = type(layer).from_config(layer.get_config())
    spec = layer.compute_output_spec(keras.KerasTensor((None, 5, 8)))
    assert (spec.shape, layer.built) == ((None, 5, 8), False)
