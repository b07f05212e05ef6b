"""Weights of half the size."""

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.export.stored_weights import StoredWeights, rounded

IDS = {"encoder_token_ids": np.array([[4, 5, 3]]), "decoder_token_ids": np.array([[2, 4]])}


def test_matrices_are_rounded_and_vectors_are_not(translator: kt.Translator) -> None:
    stored = StoredWeights(translator.model, bfloat16=True).variables
    dtypes = {(len(variable.shape) > 1, variable.dtype) for variable in stored if variable.dtype.is_floating}
    assert dtypes == {(True, tf.bfloat16), (False, tf.float32)}


def test_the_model_computes_with_them_inside_the_scope(translator: kt.Translator) -> None:
    model = translator.model
    before = model(IDS).numpy()
    with StoredWeights(model, bfloat16=True).scope():
        inside = model(IDS).numpy()
    np.testing.assert_array_equal(model(IDS).numpy(), before)
    np.testing.assert_allclose(inside, rounded(translator).model(IDS).numpy(), atol=1e-6)
    assert 1e-5 < np.abs(inside - before).max() < 0.1


def test_float32_stores_the_variables_of_the_model(translator: kt.Translator) -> None:
    stored = StoredWeights(translator.model)
    assert all(s is w.value for s, w in zip(stored.variables, translator.model.weights, strict=True))
    with stored.scope():
        translator.model(IDS)


def test_other_backends_are_refused() -> None:
    weight = type("Weight", (), {"value": np.ones(3)})
    with pytest.raises(ValueError, match=r"TensorFlow backend\. Received: variables of .*ndarray"):
        StoredWeights(type("Model", (), {"weights": [weight]}))


def test_rounding_leaves_the_original(translator: kt.Translator) -> None:
    before = translator.model.get_weights()
    copy = rounded(translator)
    assert copy.model is not translator.model
    assert (copy.search, copy.max_source_length) == (translator.search, translator.max_source_length)
    for old, new in zip(before, translator.model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    for old, new in zip(before, copy.model.get_weights(), strict=True):
        np.testing.assert_allclose(new, old, rtol=2**-8)
