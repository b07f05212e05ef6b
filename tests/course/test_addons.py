"""The layer of TensorFlow Addons, against its einsums in NumPy."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer.course import addons

GENERATOR = np.random.default_rng(0)
QUERY, KEY, VALUE = (
    GENERATOR.normal(size=size).astype("float32") for size in ((2, 3, 9), (2, 5, 11), (2, 5, 13))
)
HEADS, SIZE, OUTPUT = 2, 7, 17
KERNELS = [
    GENERATOR.normal(scale=0.5, size=size)
    for size in ((HEADS, 9, SIZE), (HEADS, 11, SIZE), (HEADS, 13, SIZE), (HEADS, SIZE, OUTPUT), (OUTPUT,))
]
MASK = np.array([[1, 1, 1, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 1]])


def reference(query: Any, key: Any, value: Any, mask: Any) -> tuple[Any, Any]:
    """The einsums of the original: N and M positions, H heads, I in, O out."""
    query_kernel, key_kernel, value_kernel, projection_kernel, bias = KERNELS
    queries = np.einsum("...NI,HIO->...NHO", query, query_kernel)
    keys = np.einsum("...MI,HIO->...MHO", key, key_kernel)
    values = np.einsum("...MI,HIO->...MHO", value, value_kernel)
    logits = np.einsum("...NHO,...MHO->...HNM", queries / np.sqrt(SIZE), keys)
    logits = logits - 10e9 * (1 - mask)
    coefficients = np.exp(logits - logits.max(-1, keepdims=True))
    coefficients = coefficients / coefficients.sum(-1, keepdims=True)
    heads = np.einsum("...HNM,...MHI->...NHI", coefficients, values)
    return np.einsum("...NHI,HIO->...NO", heads, projection_kernel) + bias, coefficients


@pytest.fixture
def layer() -> Any:
    layer = addons.MultiHeadAttention(SIZE, HEADS, OUTPUT, return_attn_coef=True)
    layer.build([(None, None, 9), (None, None, 11), (None, None, 13)])
    layer.set_weights(KERNELS)
    return layer


def test_weights_have_the_order_and_shapes_of_the_original(layer: Any) -> None:
    names = ["query_kernel", "key_kernel", "value_kernel", "projection_kernel", "projection_bias"]
    assert [weight.name for weight in layer.weights] == names
    assert [tuple(weight.shape) for weight in layer.weights] == [kernel.shape for kernel in KERNELS]


@pytest.mark.parametrize("dtype", ["int32", "float32", "bool"])
@pytest.mark.parametrize(
    "mask",
    [MASK, MASK[None], np.stack([MASK] * 2), np.stack([MASK] * 2)[:, None], np.tile(MASK, (2, HEADS, 1, 1))],
)
def test_numbers_with_a_mask(layer: Any, mask: Any, dtype: str) -> None:
    output, coefficients = layer([QUERY, KEY, VALUE], mask=mask.astype(dtype))
    expected = reference(QUERY, KEY, VALUE, MASK)
    np.testing.assert_allclose(array(output), expected[0], atol=1e-5)
    np.testing.assert_allclose(array(coefficients), expected[1], atol=1e-5)
    by_position, _ = layer([QUERY, KEY, VALUE], False, keras.ops.convert_to_tensor(mask))
    np.testing.assert_array_equal(array(by_position), array(output))


def test_numbers_without_a_mask(layer: Any) -> None:
    output, coefficients = layer([QUERY, KEY, VALUE])
    expected = reference(QUERY, KEY, VALUE, np.ones((3, 5)))
    np.testing.assert_allclose(array(output), expected[0], atol=1e-5)
    np.testing.assert_allclose(array(coefficients), expected[1], atol=1e-5)


def test_without_a_key_the_value_is_the_key() -> None:
    layer = addons.MultiHeadAttention(SIZE, HEADS)
    output = layer([QUERY, VALUE])
    assert tuple(output.shape) == (2, 3, 13)  # as wide as the value
    np.testing.assert_array_equal(array(output), array(layer([QUERY, VALUE, VALUE])))


def test_nothing_to_attend_to_gives_zeros(layer: Any) -> None:
    output, coefficients = layer([QUERY, KEY, VALUE], mask=np.zeros((3, 5)))
    assert np.all(array(coefficients) == 0)
    np.testing.assert_allclose(array(output), np.broadcast_to(KERNELS[-1], (2, 3, OUTPUT)), atol=1e-6)


def test_without_a_bias() -> None:
    layer = addons.MultiHeadAttention(SIZE, HEADS, use_projection_bias=False)
    layer([QUERY, VALUE])
    assert len(layer.weights) == 4


def test_dropout_only_in_training() -> None:
    layer = addons.MultiHeadAttention(SIZE, HEADS, dropout=0.5)
    calm = array(layer([QUERY, VALUE], False))
    np.testing.assert_array_equal(array(layer([QUERY, VALUE])), calm)
    assert np.abs(array(layer([QUERY, VALUE], True)) - calm).max() > 0.01


def test_keras_masks_are_read(layer: Any) -> None:
    ids = np.array([[3, 2, 1, 0, 0], [1, 0, 0, 0, 0]])
    embedding = keras.layers.Embedding(5, 11, mask_zero=True)
    _, coefficients = layer([QUERY, embedding(ids), VALUE])
    np.testing.assert_array_equal(
        array(coefficients) > 0, np.broadcast_to((ids != 0)[:, None, None], (2, HEADS, 3, 5))
    )
    query = keras.layers.Embedding(5, 9, mask_zero=True)(ids[:, :3])
    assert layer.compute_mask([query, KEY], [ids[:, :3], None])[0] is not None
    layer([query, KEY, VALUE], mask=MASK)  # an explicit mask is no mask of the output


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"head_size": 0}, ValueError, "head_size=0"),
        ({"num_heads": 1.5}, TypeError, r"num_heads=1\.5"),
        ({"output_size": -1}, ValueError, "output_size=-1"),
        ({"dropout": 1}, ValueError, "dropout=1"),
    ],
)
def test_wrong_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        addons.MultiHeadAttention(**{"head_size": SIZE, "num_heads": HEADS, **options})


def test_wrong_calls(layer: Any) -> None:
    with pytest.raises(ValueError, match=r"or \[query, value\]. Received: 1"):
        layer([QUERY])
    with pytest.raises(ValueError, match=r"`attention_mask` must have .* Received: shape=\(2, 5\)"):
        layer([QUERY, KEY, VALUE], mask=np.ones((2, 5)))


def test_in_tf_function(layer: Any, compiled: Any) -> None:
    output, _ = compiled(lambda *inputs: layer(list(inputs), mask=MASK))(QUERY, KEY, VALUE)
    np.testing.assert_allclose(array(output), reference(QUERY, KEY, VALUE, MASK)[0], atol=1e-5)


def test_fit_config_and_saving(tmp_path: Path) -> None:
    options = {"kernel_initializer": "he_normal", "kernel_regularizer": "l2", "bias_constraint": "non_neg"}
    query, value = keras.Input(batch_shape=(2, 3, 9)), keras.Input(batch_shape=(2, 5, 13))
    layer = addons.MultiHeadAttention(SIZE, HEADS, 9, 0.1, **options)
    assert addons.MultiHeadAttention.from_config(layer.get_config()).get_config() == layer.get_config()
    model = keras.Model([query, value], layer([query, value], mask=MASK))
    model.compile("sgd", "mse")
    [loss] = model.fit([QUERY, VALUE], QUERY, verbose=0).history["loss"]
    assert np.isfinite(loss)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded([QUERY, VALUE])), array(model([QUERY, VALUE])))


def test_a_list_of_rows_is_a_mask(layer: Any) -> None:
    expected, answer = (layer([QUERY, KEY, VALUE], mask=mask)[0] for mask in (MASK, [*MASK]))
    np.testing.assert_array_equal(array(answer), array(expected))


def test_a_mask_of_nested_lists_is_a_mask(layer: Any) -> None:
    inputs = [QUERY, KEY, VALUE]
    np.testing.assert_array_equal(
        array(layer(inputs, mask=MASK.tolist())[1]), array(layer(inputs, mask=MASK)[1])
    )


@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_another_width_than_that_of_the_weights(layer: Any, name: str) -> None:
    inputs = {"query": QUERY, "key": KEY, "value": VALUE}
    message = f"The last axis of `{name}` must have the size of the layer's weights, {inputs[name].shape[-1]}"
    layer(list(inputs.values()))
    inputs[name] = inputs[name][..., :1]
    with pytest.raises(ValueError, match=message):
        layer(list(inputs.values()))


@pytest.mark.parametrize("mask", [None, MASK, np.stack([MASK] * 2)])
@pytest.mark.parametrize("leading", [(), (2, 1), (1, 2)])
def test_any_number_of_leading_axes(layer: Any, leading: tuple[int, ...], mask: Any) -> None:
    inputs = [x[0] if not leading else x.reshape(*leading, *x.shape[1:]) for x in (QUERY, KEY, VALUE)]
    if mask is not None and mask.ndim > 2:
        mask = mask[0] if not leading else mask.reshape(*leading, *mask.shape[1:])
    expected = reference(*inputs, 1 if mask is None else MASK)
    for found, wanted in zip(layer(inputs, mask=mask), expected, strict=True):
        np.testing.assert_allclose(array(found), wanted, atol=1e-4)
    symbolic = layer([keras.KerasTensor(x.shape) for x in inputs], mask=mask)
    assert [tuple(x.shape) for x in symbolic] == [x.shape for x in expected]


def test_a_shape_that_does_not_fit_is_refused_before_it_is_built() -> None:
    layer = addons.MultiHeadAttention(SIZE, HEADS)
    shapes = [(2, 3, 9), (2, 5, 11), (2, 5, 13)]
    assert layer.compute_output_shape(shapes) == (2, 3, 13)
    with pytest.raises(ValueError, match="`value` and `key` one length"):
        layer.compute_output_shape([(2, 3, 9), (2, 5, 11), (2, 4, 13)])
