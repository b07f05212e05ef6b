"""What dropout draws next is read from a model and given to another."""

import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.errors import InputError
from keras_transformer.models import Transformer
from keras_transformer.training import (
    backend_random_state,
    load_model,
    random_state,
    save_model,
    set_backend_random_state,
    set_random_state,
)

X = np.ones((3, 37), "float32")


def dropout_model(*seeds: int) -> keras.Model:
    return keras.Sequential([keras.Input((37,)), *(keras.layers.Dropout(0.5, seed=seed) for seed in seeds)])


def drawn(model: keras.Model) -> np.ndarray:
    return ops.convert_to_numpy(model(X, training=True))


def test_each_generator_has_its_seed_and_what_it_drew() -> None:
    model = dropout_model(5, 7)
    assert random_state(model) == [[5, 0], [7, 0]]
    drawn(model)
    assert random_state(model) == [[5, 1], [7, 1]]


def test_another_model_goes_on_where_the_first_stands() -> None:
    first, second = dropout_model(5), dropout_model(5)
    begin = drawn(first)
    set_random_state(second, random_state(first))
    expected = drawn(first)
    assert not np.array_equal(begin, expected)
    np.testing.assert_array_equal(drawn(second), expected)


def test_a_keras_file_lacks_it(tmp_path: Path) -> None:
    """Were it there, this module would not be needed."""
    model = dropout_model(5)
    drawn(model)
    save_model(model, tmp_path / "model.keras")
    loaded = load_model(tmp_path / "model.keras")
    assert random_state(loaded) == [[5, 0]]
    set_random_state(loaded, random_state(model))
    np.testing.assert_array_equal(drawn(loaded), drawn(model))


def test_a_transformer_has_a_generator_for_each_dropout() -> None:
    keras.utils.set_random_seed(3)
    options: dict[str, Any] = {"num_layers": 1, "hidden_dim": 4, "num_heads": 2, "intermediate_dim": 3}
    models = [Transformer(7, 5, **options, dropout=0.5) for _ in range(2)]
    models[1].set_weights(models[0].get_weights())
    inputs = {"encoder_token_ids": np.array([[4, 5, 3]]), "decoder_token_ids": np.array([[2, 4]])}
    for _ in range(2):
        models[0](inputs, training=True)
    set_random_state(models[1], random_state(models[0]))
    assert len(random_state(models[0])) > 2
    backend_state = backend_random_state()
    first = ops.convert_to_numpy(models[0](inputs, training=True))
    set_backend_random_state(backend_state)
    second = ops.convert_to_numpy(models[1](inputs, training=True))
    np.testing.assert_array_equal(first, second)


def test_a_model_without_dropout_has_none() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    assert random_state(model) == []
    set_random_state(model, [])


def test_another_number_of_generators_is_refused() -> None:
    message = "must be of the model's 2 seed generators. Received: the states of 1."
    with pytest.raises(InputError, match=re.escape(message)):
        set_random_state(dropout_model(5, 7), [[1, 2]])


@pytest.mark.parametrize("value", [[1], [1, 2, 3], "12", [1, 2.0], [1, 2**64], [True, 1], None])
def test_what_is_no_state_is_refused(value: Any) -> None:
    model = dropout_model(5, 7)
    message = rf"must be two whole numbers of \d+ bits\. Received: {re.escape(repr(value))}\."
    with pytest.raises(InputError, match=message):
        set_random_state(model, [[1, 2], value])
    assert random_state(model) == [[5, 0], [7, 0]]


def test_torch_has_a_generator_of_its_own() -> None:
    """For layers without a seed; the others keep what they draw in their seed generators."""
    layer, state = keras.layers.Dropout(0.5), backend_random_state()
    first = ops.convert_to_numpy(layer(X, training=True))
    set_backend_random_state(state)
    second = ops.convert_to_numpy(layer(X, training=True))
    if keras.backend.backend() == "torch":
        assert len(state) > 1
        np.testing.assert_array_equal(first, second)
    else:
        assert state == []
        assert not np.array_equal(first, second)


def test_no_state_of_the_backend_changes_nothing() -> None:
    before = backend_random_state()
    set_backend_random_state([])
    assert backend_random_state() == before


@pytest.mark.parametrize("state", [[1, 2], [2**70], ["a"]])
def test_what_torch_does_not_take_is_refused(state: Any) -> None:
    before = backend_random_state()
    if keras.backend.backend() == "torch":
        message = rf"must be of torch's generator\. Received: {re.escape(str(state))}: "
        with pytest.raises(InputError, match=message):
            set_backend_random_state(state)
    else:
        set_backend_random_state(state)
    assert backend_random_state() == before
