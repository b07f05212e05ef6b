import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer.layers import EncoderLayer, PositionEncoding, TokenEmbedding


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_vectors_are_rows_scaled_by_the_root_of_the_width(dtype: str) -> None:
    layer, token_ids = TokenEmbedding(11, 16), np.array([[1, 10, 0], [3, 3, 1]], dtype)
    vectors = array(layer(token_ids))
    np.testing.assert_allclose(vectors, array(layer.embeddings)[token_ids] * 4.0, rtol=1e-6)


def test_vectors_start_with_deviation_one() -> None:
    layer = TokenEmbedding(997, 61)
    vectors = array(layer(np.arange(997)[None]))
    assert abs(vectors.std() - 1) < 0.02
    assert abs(vectors.mean()) < 0.02


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision(dtype: str) -> None:
    layer = TokenEmbedding(11, 7, dtype=dtype)
    vectors = layer(np.array([[1, 2]]))
    assert keras.backend.standardize_dtype(layer.embeddings.dtype) == "float32"
    assert keras.backend.standardize_dtype(vectors.dtype) == dtype.removeprefix("mixed_")


@pytest.mark.parametrize("sizes", [{"vocabulary_size": 0}, {"hidden_dim": -1}])
def test_sizes_not_above_zero(sizes: dict[str, Any]) -> None:
    [(name, value)] = sizes.items()
    with pytest.raises(ValueError, match=re.escape(f"must be above zero. Received: {name}={value}.")):
        TokenEmbedding(**{"vocabulary_size": 11, "hidden_dim": 7, **sizes})


def test_without_the_scale() -> None:
    layer = TokenEmbedding(11, 16, scale=False)
    np.testing.assert_allclose(array(layer(np.array([[3]])))[0, 0], array(layer.embeddings)[3], rtol=1e-6)


@pytest.mark.parametrize(("token_id", "row"), [(11, 1), (-1, 0), (10**6, 0)])
def test_ids_outside_the_vocabulary(token_id: int, row: int) -> None:
    token_ids = np.array([[1, 2, 3], [4, 5, 6]])
    token_ids[row, 2] = token_id
    message = f"at least 0 and below vocabulary_size=11. Received: {token_id} at ({row}, 2)."
    with pytest.raises(ValueError, match=re.escape(f"`token_ids` must be {message}")):
        TokenEmbedding(11, 7)(token_ids)


def test_ids_that_are_not_integers() -> None:
    message = "`token_ids` must be integers. Received: fractions, dtype=float32."
    with pytest.raises(TypeError, match=re.escape(message)):
        TokenEmbedding(11, 7)(np.array([[1.5]], "float32"))
    with pytest.raises(TypeError, match=re.escape("`token_ids` must be integers. Received: dtype=bfloat16.")):
        TokenEmbedding(11, 7, dtype="mixed_bfloat16")(np.array([[1.0]], "float32"))


@keras.saving.register_keras_serializable(package="tests")
class Tagger(keras.Model):
    """A subclassed model, which Keras rebuilds from a file with inputs of float32."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.embedding, self.outer = TokenEmbedding(11, 8), keras.layers.Dense(3)

    def call(self, token_ids: Any) -> Any:
        return self.outer(self.embedding(token_ids))


def test_a_subclassed_model_is_read_back_with_its_weights(tmp_path: Path) -> None:
    model, token_ids = Tagger(), np.array([[1, 2, 0]])
    expected = array(model(token_ids))
    model.save(tmp_path / "tagger.keras")
    restored = keras.saving.load_model(tmp_path / "tagger.keras")
    np.testing.assert_array_equal(array(restored(token_ids)), expected)


def test_a_sequential_model_needs_no_input_layer() -> None:
    model = keras.Sequential([TokenEmbedding(11, 8), keras.layers.Dense(3)])
    token_ids = np.array([[1, 2, 0]])
    outer, embedding = model.layers[1], model.layers[0]
    np.testing.assert_allclose(array(model(token_ids)), array(outer(embedding(token_ids))), atol=1e-6)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a graph of 64 bits")
def test_an_id_of_more_than_32_bits_is_no_other_id() -> None:
    import tensorflow as tf

    layer = TokenEmbedding(11, 7)
    vectors = tf.function(layer)(tf.constant([[2**32 + 5, 5]], tf.int64))[0]
    assert np.isnan(array(vectors)).all(axis=-1).tolist() == [True, False]


def test_ids_outside_the_vocabulary_while_a_graph_is_traced() -> None:
    """TensorFlow says so itself, on a CPU; JAX cannot, and gives NaN."""
    layer, token_ids = TokenEmbedding(11, 7), np.array([[1, 11]])
    layer(token_ids[:, :1])
    if keras.backend.backend() == "tensorflow":
        tf = pytest.importorskip("tensorflow")
        with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape("= 11 is not in [0, 11)")):
            tf.function(layer)(tf.constant(token_ids))
    elif keras.backend.backend() == "jax":
        vectors = np.asarray(pytest.importorskip("jax").jit(layer)(token_ids))
        assert np.isfinite(vectors[0, 0]).all()
        assert np.isnan(vectors[0, 1]).all()
    else:
        pytest.skip("torch traces nothing here")


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="ragged tensors are TensorFlow's")
def test_ragged_ids_are_refused_with_what_to_do() -> None:
    import tensorflow as tf

    ragged = tf.ragged.constant([[4, 5, 6], [4]])
    with pytest.raises(ValueError, match=r"as `to_tensor\(\)` does\. Received: a ragged tensor of"):
        TokenEmbedding(11, 8)(ragged)


@pytest.mark.parametrize("mask_zero", [True, False])
def test_padding_does_not_move_the_tokens_of_a_layer_that_follows(mask_zero: bool) -> None:
    embedding = TokenEmbedding(11, 8, mask_zero=mask_zero)
    layers = [embedding, PositionEncoding(), EncoderLayer(2, 16)]
    model = keras.Sequential(layers)
    short, padded = (array(model(np.array(ids))) for ids in ([[3, 5, 7]], [[3, 5, 7, 0, 0]]))
    assert (np.abs(short - padded[:, :3]).max() < 1e-5) == mask_zero


def test_a_symbolic_call_refuses_other_numbers_than_an_eager_one() -> None:
    layer = TokenEmbedding(11, 7, dtype="mixed_bfloat16")  # which has not all ids
    with pytest.raises(TypeError, match=re.escape("must be integers. Received: dtype=bfloat16.")):
        layer(keras.Input((3,), dtype="float32"))
