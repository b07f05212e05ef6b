import re
import sys
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw, named_weights
from keras_transformer._backend.attention import _attend_fused
from keras_transformer.layers import MultiHeadAttention, causal_mask


def randomized(layer: Any, *inputs: Any) -> Any:
    """Builds the layer and gives every weight, biases too, a random value."""
    layer(*inputs)
    layer.set_weights([0.5 * draw(*weight.shape, seed=number) for number, weight in enumerate(layer.weights)])
    return layer


def reference(layer: Any, query: Any, value: Any, key: Any, mask: Any = True) -> tuple[Any, Any]:
    """Section 3.2.2 of the paper, head by head, from the layer's weights."""
    weights = {name: weight.astype("float64") for name, weight in named_weights(layer.weights).items()}
    heads, scores = [], []
    for h in range(layer.num_heads):
        q, k, v = (
            x @ weights[f"{name}_kernel"][:, h] + weights[f"{name}_bias"][h]
            for name, x in (("query", query), ("key", key), ("value", value))
        )
        logits = np.where(mask, q @ k.swapaxes(1, 2) / np.sqrt(layer.key_dim), -np.inf)
        exponentials = np.exp(logits - logits.max(-1, keepdims=True))
        scores.append(exponentials / exponentials.sum(-1, keepdims=True))
        heads.append(scores[-1] @ v @ weights["output_kernel"][h])
    return sum(heads) + weights["output_bias"], np.stack(scores, 1)


WIDTHS: dict[str, Any] = {"num_heads": 3, "key_dim": 5, "value_dim": 7, "output_shape": 17}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_query_key_and_value_of_different_widths(causal: bool, training: bool, close: Any) -> None:
    query, key, value = draw(2, 5, 9), draw(2, 7, 11, seed=1), draw(2, 7, 13, seed=2)
    layer = randomized(MultiHeadAttention(**WIDTHS), query, value, key)
    output, scores = layer(
        query, value, key, use_causal_mask=causal, return_attention_scores=True, training=training
    )
    mask = array(causal_mask(5, 7)) if causal else True
    expected_output, expected_scores = reference(layer, query, value, key, mask)
    close(array(output), expected_output, 1e-5)
    close(array(scores), expected_scores, 1e-5)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="Keras's products are float32 there")
@pytest.mark.parametrize("training", [False, True])
def test_double_precision_all_the_way(training: bool) -> None:
    inputs = draw(2, 5, 9).astype("float64")
    layer = randomized(MultiHeadAttention(3, 5, positions=None, dtype="float64"), inputs, inputs)
    mask = array(causal_mask(5, 5))
    output = layer(inputs, inputs, attention_mask=mask, training=training)
    np.testing.assert_allclose(
        array(output), reference(layer, inputs, inputs, inputs, mask)[0], rtol=0, atol=1e-13
    )


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="Keras's products are float32 there")
@pytest.mark.parametrize("positions", ["rotary", "relative", "relative_keys", "relative_sinusoidal"])
def test_positions_in_double_precision(positions: str) -> None:
    """A small change has an effect in proportion, which rounding to float32 would hide."""
    inputs, change = draw(2, 5, 8).astype("float64"), 1e-9 * draw(2, 5, 8, seed=1).astype("float64")
    layer = randomized(MultiHeadAttention(2, 4, positions=positions, dtype="float64"), inputs, inputs)
    outputs = [array(layer(x, x)) for x in (inputs - change, inputs, inputs + change)]
    below, above = outputs[1] - outputs[0], outputs[2] - outputs[1]
    np.testing.assert_allclose(above, below, rtol=0, atol=1e-4 * abs(above).max())


def test_kernels_are_named_and_shaped_by_the_letters() -> None:
    layer = MultiHeadAttention(**WIDTHS)
    layer.build((None, None, 9), (None, None, 13), (None, None, 11))
    assert {name: weight.shape for name, weight in named_weights(layer.weights).items()} == {
        "query_kernel": (9, 3, 5),
        "key_kernel": (11, 3, 5),
        "value_kernel": (13, 3, 7),
        "output_kernel": (3, 7, 17),
        "query_bias": (3, 5),
        "key_bias": (3, 5),
        "value_bias": (3, 7),
        "output_bias": (17,),
    }


def test_without_bias() -> None:
    layer = MultiHeadAttention(2, 3, use_bias=False)
    layer.build((None, None, 7), (None, None, 7))
    assert [name.removesuffix("_kernel") for name in named_weights(layer.weights)] == [
        "query",
        "key",
        "value",
        "output",
    ]


def test_kernels_start_as_the_matrices_they_are() -> None:
    layer = MultiHeadAttention(8, 16)
    layer.build((None, None, 128), (None, None, 64))
    expected = {"query": (128, 128), "key": (64, 128), "value": (64, 128), "output": (128, 128)}
    for name, (rows, columns) in expected.items():
        deviation = array(getattr(layer, f"{name}_dense").kernel).std()
        np.testing.assert_allclose(deviation, np.sqrt(2 / (rows + columns)), rtol=0.05)


def test_numbers_to_check_by_hand() -> None:
    """One head that copies its inputs: each query finds the key like it, and takes its value."""
    layer = MultiHeadAttention(1, 2, use_bias=False)
    layer.build((None, None, 2), (None, None, 2))
    identity = np.eye(2, dtype="float32")
    layer.set_weights([100 * identity[:, None], identity[:, None], identity[:, None], identity[None]])
    keys = np.array([[[1, 0], [0, 1]]], "float32")
    value = np.array([[[3, 4], [5, 6]]], "float32")
    output = array(layer(keys[:, ::-1], value, keys))
    np.testing.assert_allclose(output, value[:, ::-1], atol=1e-5)


def test_key_is_value_by_default() -> None:
    query, value = draw(2, 5, 7), draw(2, 3, 11)
    layer = randomized(MultiHeadAttention(2, 3), query, value)
    np.testing.assert_array_equal(array(layer(query, value)), array(layer(query, value, value)))


def test_one_key() -> None:
    query, value = draw(2, 5, 7), draw(2, 1, 7, seed=1)
    layer = randomized(MultiHeadAttention(2, 3), query, value)
    _, scores = layer(query, value, return_attention_scores=True)
    np.testing.assert_array_equal(array(scores), np.ones((2, 2, 5, 1)))


def test_dropout_is_on_in_training_only_and_not_in_the_scores() -> None:
    x = draw(2, 5, 7)
    layer = randomized(MultiHeadAttention(2, 3, dropout=0.5), x, x)
    output, scores = layer(x, x, return_attention_scores=True, training=True)
    expected_output, expected_scores = layer(x, x, return_attention_scores=True, training=False)
    assert np.abs(array(output) - array(expected_output)).max() > 1e-3
    np.testing.assert_allclose(array(scores), array(expected_scores), atol=1e-6)
    np.testing.assert_allclose(array(layer(x, x)), array(expected_output), atol=1e-6)


@pytest.mark.parametrize("name", ["num_heads", "key_dim", "value_dim", "output_shape"])
@pytest.mark.parametrize("size", [0, -2])
def test_sizes_not_above_zero(name: str, size: int) -> None:
    sizes: dict[str, Any] = {"num_heads": 2, "key_dim": 3, name: size}
    message = f"`{name}` must be above zero. Received: {name}={size}."
    with pytest.raises(ValueError, match=re.escape(message)):
        MultiHeadAttention(**sizes)


def test_dropout_out_of_range() -> None:
    with pytest.raises(ValueError, match=re.escape("and below 1. Received: dropout=1.0.")):
        MultiHeadAttention(2, 3, dropout=1.0)


@pytest.mark.parametrize(("name", "unknown"), [("query", 0), ("value", 1), ("key", 2)])
def test_unknown_width(name: str, unknown: int) -> None:
    shapes = [(2, 3, None if place == unknown else 7) for place in range(3)]
    message = f"The last axis of `{name}` must have a known size. Received: shape=(2, 3, None)."
    with pytest.raises(ValueError, match=re.escape(message)):
        MultiHeadAttention(2, 3).build(*shapes)


def test_a_mask_in_the_place_of_a_value_is_refused() -> None:
    x, mask = draw(4, 4, 8), np.tril(np.ones((4, 4), "float32"))
    for arguments in ((x, mask), (x, x, mask), (x, draw(4, 5, 4, 8)), (draw(2, 3, 5, 8), draw(4, 3, 8))):
        with pytest.raises(ValueError, match=r"must have one rank; a mask is an `attention_mask`.*Received:"):
            MultiHeadAttention(2, 4)(*arguments)


def test_as_many_sequences_in_other_axes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must have one batch size, .*\. Received: query of shape"):
        MultiHeadAttention(2, 4)(draw(2, 3, 5, 8), draw(3, 2, 4, 8))


@pytest.mark.parametrize(("t", "s"), [(0, 3), (3, 0), (0, 0)])
def test_sequences_of_no_length_keep_their_batch(t: int, s: int) -> None:
    layer = MultiHeadAttention(2, 4)
    output, scores = layer(draw(2, t, 8), draw(2, s, 8), return_attention_scores=True)
    assert (tuple(output.shape), tuple(scores.shape)) == ((2, t, 8), (2, 2, t, s))
    assert tuple(layer(draw(2, t, 8), draw(2, s, 8)).shape) == (2, t, 8)


@pytest.mark.parametrize(
    ("name", "widths"), [("query", (16, 8, 8)), ("value", (8, 16, 8)), ("key", (8, 8, 16))]
)
def test_another_width_than_that_of_the_weights_is_refused(name: str, widths: tuple[int, ...]) -> None:
    layer = MultiHeadAttention(2, 4)
    layer(*[draw(2, 5, 8)] * 3)
    message = f"The last axis of `{name}` must have the size of the layer's weights, 8. Received: shape="
    with pytest.raises(ValueError, match=re.escape(f"{message}(2, 5, 16).")):
        layer(*(draw(2, 5, width) for width in widths))


def test_integers_are_numbers() -> None:
    layer, x = MultiHeadAttention(2, 4), np.arange(12).reshape(1, 3, 4).astype("int32")
    np.testing.assert_array_equal(array(layer(x, x)), array(layer(x.astype("float32"), x.astype("float32"))))


@pytest.mark.parametrize("lengths", [(5, 3), (None, None)])
def test_symbolic_scores(lengths: tuple[int | None, int | None]) -> None:
    t, s = lengths
    layer, query, value = MultiHeadAttention(2, 3), keras.Input((t, 7)), keras.Input((s, 11))
    output, scores = layer(query, value, return_attention_scores=True)
    assert (tuple(output.shape), tuple(scores.shape)) == ((None, t, 7), (None, 2, t, s))
    assert tuple(layer(query, value).shape) == (None, t, 7)


@pytest.fixture
def formulas(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which of the two formulas each attention took, where the backend has a kernel."""
    taken: list[str] = []
    module = sys.modules[MultiHeadAttention.__module__]

    def spy(name: str) -> None:
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, **k: (taken.append(name), function(*a, **k))[1])

    # As on JAX: a kernel, but none with dropout.
    monkeypatch.setattr(module, "fused_attention", lambda *sizes: None if sizes[2] else _attend_fused)
    spy("_attend_without_scores")
    spy("dot_product_attention")
    return taken


@pytest.mark.parametrize(
    ("options", "call", "needs_scores"),
    [
        ({}, {}, False),
        ({}, {"training": True}, False),
        ({"dropout": 0.5}, {}, False),
        ({"dropout": 0.5}, {"training": True}, True),
        ({}, {"return_attention_scores": True}, True),
        ({"positions": "relative"}, {}, True),
        ({"positions": "relative_keys"}, {}, True),
        ({"positions": "relative_sinusoidal"}, {}, True),
        ({"positions": "rotary"}, {}, False),
    ],
)
def test_what_the_call_needs_decides(
    formulas: list[str], options: Any, call: Any, needs_scores: bool
) -> None:
    layer, x = MultiHeadAttention(2, 4, **options), draw(2, 5, 8)
    layer(x, x, use_causal_mask=True, **call)
    assert formulas == ["dot_product_attention" if needs_scores else "_attend_without_scores"]


@pytest.mark.parametrize(("seed", "needs_scores"), [(None, False), (3, True)])
def test_dropout_leaves_the_kernel_where_it_has_dropout(
    formulas: list[str], monkeypatch: pytest.MonkeyPatch, seed: int | None, needs_scores: bool
) -> None:
    module = sys.modules[MultiHeadAttention.__module__]
    monkeypatch.setattr(module, "fused_attention", lambda *options: _attend_fused)
    x = draw(2, 5, 8)
    MultiHeadAttention(2, 4, dropout=0.5, seed=seed)(x, x, training=True)
    assert formulas == ["dot_product_attention" if needs_scores else "_attend_without_scores"]


@pytest.mark.usefixtures("formulas")
def test_both_formulas_give_the_same_numbers() -> None:
    layer, x = MultiHeadAttention(2, 4, dropout=0.3, use_gate=True, num_key_value_heads=1), draw(2, 5, 8)
    mask = np.array([[1, 1, 1, 1, 1], [0, 0, 0, 0, 0]])
    expected, _ = layer(x, x, padding_mask=mask, use_causal_mask=True, return_attention_scores=True)
    output = layer(x, x, padding_mask=mask, use_causal_mask=True)
    np.testing.assert_allclose(array(output), array(expected), atol=1e-5)


@pytest.mark.parametrize("positions", [None, "rotary", "relative", "relative_keys", "relative_sinusoidal"])
def test_jax_exports_it_for_any_length(positions: str | None) -> None:
    if keras.backend.backend() != "jax":
        pytest.skip("JAX exports unknown sizes as symbols")
    import jax

    layer = MultiHeadAttention(2, 4, positions=positions)
    layer.build((None, None, 8), (None, None, 8))
    sizes = jax.export.symbolic_shape("b, t")
    exported = jax.export.export(jax.jit(lambda x: layer(x, x)))(jax.ShapeDtypeStruct((*sizes, 8), "float32"))
    x = draw(2, 5, 8)
    np.testing.assert_allclose(array(exported.call(x)), array(layer(x, x)), atol=1e-5)
