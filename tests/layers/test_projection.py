"""What Keras does with the kernels of its own layers, it does with those of attention."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.layers import DecoderLayer, MultiHeadAttention, OutputProjection

NAMES = ("query", "key", "value", "attention_output")
X, MEMORY = draw(2, 5, 8), draw(2, 3, 8, seed=1)


def projections(layer: Any) -> list[Any]:
    return [part for part in layer._flatten_layers() if isinstance(part, keras.layers.EinsumDense)]


@pytest.fixture
def pair() -> tuple[Any, Any]:
    """Our layer and Keras's, of the same weights."""
    ours, theirs = (kind(2, 4, name="mha") for kind in (MultiHeadAttention, keras.layers.MultiHeadAttention))
    ours(X, MEMORY)
    theirs(X, MEMORY)
    ours.set_weights([0.5 * draw(*weight.shape, seed=n) for n, weight in enumerate(ours.weights)])
    theirs.set_weights(ours.get_weights())
    return ours, theirs


def test_keras_finds_the_parts_by_its_own_names(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    for name in ("query_dense", "key_dense", "value_dense", "output_dense", "_query_dense", "_output_dense"):
        np.testing.assert_array_equal(array(getattr(ours, name).kernel), array(getattr(theirs, name).kernel))
    assert [weight.path for weight in ours.weights] == [weight.path for weight in theirs.weights]


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("reads", ["ours", "theirs"])
def test_files_of_weights_of_keras(reads: str, dropout: float, tmp_path: Path) -> None:
    def model(kind: Any) -> keras.Model:
        inputs = keras.Input((None, 8))
        return keras.Model(inputs, kind(2, 4, dropout=dropout, name="mha")(inputs, inputs))

    models = {"ours": model(MultiHeadAttention), "theirs": model(keras.layers.MultiHeadAttention)}
    reader = models.pop(reads)
    [writer] = models.values()
    writer.save_weights(tmp_path / "model.weights.h5")
    reader.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(array(reader(X)), array(writer(X)), atol=1e-6)


def test_lora_trains_little_and_is_in_every_call() -> None:
    layer = DecoderLayer(2, 16)
    before = array(layer(X, MEMORY))
    for part in layer._flatten_layers():
        if isinstance(part, keras.layers.Dense | keras.layers.EinsumDense):
            part.enable_lora(2)
    kernels = [weight for weight in layer.weights if weight.name == "kernel"]
    assert len(kernels) == 10
    assert not any(weight.trainable for weight in kernels)
    np.testing.assert_array_equal(array(layer(X, MEMORY)), before)  # since B starts as zeros
    for weight in layer.weights:
        if weight.name.startswith("lora"):
            weight.assign(draw(*weight.shape, seed=3))
    merged = DecoderLayer(2, 16)
    merged(X, MEMORY)
    for part, other in zip(layer._flatten_layers(), merged._flatten_layers(), strict=True):
        if hasattr(part, "lora_enabled"):
            other.set_weights([array(part.kernel), array(part.bias)])
    np.testing.assert_allclose(array(layer(X, MEMORY)), array(merged(X, MEMORY)), atol=1e-4)
    assert np.abs(array(layer(X, MEMORY)) - before).max() > 0.1


def test_int8_is_that_of_keras(pair: tuple[Any, Any]) -> None:
    for layer in pair:
        for part in layer._flatten_layers():
            if isinstance(part, keras.layers.EinsumDense):
                part.quantize("int8")
    ours, theirs = pair
    assert [keras.backend.standardize_dtype(part._kernel.dtype) for part in projections(ours)] == ["int8"] * 4
    np.testing.assert_allclose(array(ours(X, MEMORY)), array(theirs(X, MEMORY)), atol=1e-5)


def test_a_quantized_kernel_is_a_matrix_of_floats_for_who_asks(pair: tuple[Any, Any]) -> None:
    ours, _ = pair
    exact = [array(part.flat()[0]) for part in projections(ours)]
    for part, matrix in zip(projections(ours), exact, strict=True):
        part.quantize("int8")
        # Half a step of 127, of the largest number in a column.
        step = np.abs(matrix).max(0) / 127
        assert np.all(np.abs(array(part.flat()[0]) - matrix) <= 0.5 * step + 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_entries_of_a_map_of_policies_reach_their_kernel(name: str) -> None:
    policies = keras.dtype_policies.DTypePolicyMap("float32")
    policies[f"mha/{name}"] = keras.DTypePolicy("bfloat16")
    layer = MultiHeadAttention(2, 4, dtype=policies, name="mha")
    layer(X, MEMORY)
    dtypes = {part.name: keras.backend.standardize_dtype(part.kernel.dtype) for part in projections(layer)}
    assert dtypes == {**dict.fromkeys(NAMES, "float32"), name: "bfloat16"}


def test_the_kernel_of_logits_is_quantized_too() -> None:
    layer = OutputProjection(7)
    before = array(layer(X))
    layer.dense.quantize("int8")
    assert 0 < np.abs(array(layer(X)) - before).max() < 0.1
    np.testing.assert_allclose(X @ array(layer.flat()[0]), before, atol=0.1)


@pytest.mark.parametrize("mode", ["int4", "float8"])
def test_other_quantizations_are_those_of_keras(pair: tuple[Any, Any], mode: str) -> None:
    for layer in pair:
        for part in layer._flatten_layers():
            if isinstance(part, keras.layers.EinsumDense):
                part.quantize(mode)
    ours, theirs = pair
    np.testing.assert_allclose(array(ours(X, MEMORY)), array(theirs(X, MEMORY)), atol=1e-5)


@pytest.mark.parametrize("block_size", [-1, 2, 128])
def test_packed_kernels_are_a_matrix_for_who_asks(pair: tuple[Any, Any], block_size: int) -> None:
    part = pair[0].query_dense
    config = keras.quantizers.Int4QuantizationConfig(activation_quantizer=None, block_size=block_size)
    part.quantize("int4", config=config)
    rows = np.eye(part.kernel.shape[0], dtype="float32")[None]
    expected = array(part(rows))[0] - array(part.bias)  # what the quantized layer makes of each row
    np.testing.assert_allclose(array(part.flat()[0]).reshape(expected.shape), expected, atol=1e-6)
