import re
from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer.arguments import (
    check_alike,
    check_belong_together,
    check_choice,
    check_groups,
    check_heads,
    check_positive,
    check_rates,
    check_vectors,
    check_width,
    freeze_parts,
    get_activation,
    known_sizes,
    known_width,
)


def test_positive_sizes_pass() -> None:
    check_positive(num_heads=1, key_dim=np.int64(13))


@pytest.mark.parametrize("size", [0, -3])
def test_sizes_not_above_zero(size: int) -> None:
    with pytest.raises(ValueError, match=rf"^`key_dim` must be above zero\. Received: key_dim={size}\.$"):
        check_positive(num_heads=2, key_dim=size)


@pytest.mark.parametrize("size", [2.0, "8", None, True])
def test_sizes_that_are_no_integers(size: Any) -> None:
    message = f"`key_dim` must be an integer. Received: key_dim={size!r}."
    with pytest.raises(TypeError, match=re.escape(message)):
        check_positive(key_dim=size)


def test_rates_pass() -> None:
    check_rates(dropout=0, attention_dropout=0.0, intermediate_dropout=0.999)


@pytest.mark.parametrize("rate", [-0.1, 1, 1.0, 1.5, float("nan")])
def test_rates_out_of_range(rate: float) -> None:
    message = f"`dropout` must be at least 0 and below 1. Received: dropout={rate}."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_rates(dropout=rate)


@pytest.mark.parametrize("rate", ["0.1", None])
def test_rates_that_are_no_numbers(rate: Any) -> None:
    message = f"`dropout` must be a number. Received: dropout={rate!r}."
    with pytest.raises(TypeError, match=re.escape(message)):
        check_rates(dropout=rate)


@pytest.mark.parametrize(("num_heads", "hidden_dim"), [(1, 7), (7, 7), (8, 512)])
def test_heads_that_divide(num_heads: int, hidden_dim: int) -> None:
    check_heads(num_heads, hidden_dim)


@pytest.mark.parametrize(("num_heads", "hidden_dim"), [(3, 8), (7, 512), (16, 8)])
def test_heads_that_do_not_divide(num_heads: int, hidden_dim: int) -> None:
    message = (
        f"`num_heads` must divide `hidden_dim`. Received: num_heads={num_heads}, hidden_dim={hidden_dim}."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        check_heads(num_heads, hidden_dim)


def test_known_width() -> None:
    assert known_width(query=(None, None, 13)) == 13


def test_unknown_width() -> None:
    message = "The last axis of `query` must have a known size. Received: shape=(2, 3, None)."
    with pytest.raises(ValueError, match=re.escape(message)):
        known_width(query=(2, 3, None))


def test_choices() -> None:
    check_choice((None, "a"), option=None)
    with pytest.raises(
        ValueError, match=re.escape("`option` must be one of None, 'a'. Received: option='b'.")
    ):
        check_choice((None, "a"), option="b")


def test_activations() -> None:
    assert get_activation("gelu") is keras.activations.gelu
    message = "`activation` must be a name that Keras knows, or a function. Received: activation='softmux'."
    with pytest.raises(ValueError, match=re.escape(message)):
        get_activation("softmux")


def test_groups() -> None:
    check_groups(None, 5)
    check_groups(2, 6)
    message = "`num_key_value_heads` must divide `num_heads`. Received: num_key_value_heads=4, num_heads=6."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_groups(4, 6)


def test_sizes_that_are_symbols_are_not_known() -> None:
    assert known_sizes((2, None, object())) == (2, None, None)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 5, 8), (1, 5, 8), (1, 5, 8)),
        ((3, 5, 8), (3, 5, 8), (3, 1, 8)),
        ((None, 5, 8), (2, 4, 8), (3, 4, 8)),
    ],
)
def test_inputs_that_do_not_belong_together(shapes: Any) -> None:
    message = "one batch size, and `value` and `key` one length. Received: query of shape "
    with pytest.raises(ValueError, match=re.escape(f"{message}{shapes[0]}, value of shape {shapes[1]}, key")):
        check_belong_together(*shapes)


def test_inputs_that_belong_together() -> None:
    check_belong_together((3, 5, 8), (3, 7, 2), (None, 7, 11))


def test_parts_made_in_build_are_frozen_too() -> None:
    layer = keras.layers.Layer()
    layer.trainable = False
    layer.part = keras.layers.Dense(2)
    layer.part.build((None, 3))
    assert layer.part.trainable_weights
    freeze_parts(layer)
    assert layer.part.trainable_weights == []


def test_a_width_that_differs_is_named_where_it_is_known() -> None:
    check_width(8, inputs=np.zeros((2, 8)), other=keras.KerasTensor((None, None, 8)), rows=[[1.0]])
    message = (
        "The last axis of `other` must have the size of the layer's weights, 8. Received: shape=(None, 9)."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        check_width(8, inputs=np.zeros((2, 8)), other=keras.KerasTensor((None, 9)))


@pytest.mark.parametrize("shape", [(6,), (2, 6)])
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_token_ids_are_no_vectors(shape: tuple[int, ...], dtype: str) -> None:
    message = f"token ids go through an embedding first. Received: dtype {dtype}, shape {shape}."
    for inputs in (np.zeros(shape, dtype), keras.KerasTensor(shape, dtype)):
        with pytest.raises(TypeError, match=re.escape(message)):
            check_vectors(inputs)


def test_vectors_of_any_numbers_are_vectors() -> None:
    for inputs in (np.zeros((2, 6, 8)), np.zeros((2, 6, 8), "int32"), [[1.0, 2.0]]):
        check_vectors(inputs)


def test_examples_are_no_sequence() -> None:
    for inputs in (np.zeros((4, 8)), keras.KerasTensor((None, 8))):
        received = re.escape(f"(b, t, d). Received: shape={tuple(inputs.shape)}.")
        with pytest.raises(ValueError, match=received):
            check_vectors(inputs)


def test_shapes_that_differ_are_named_where_they_are_known() -> None:
    check_alike(inputs=np.zeros((2, 8)), other=keras.KerasTensor((None, 8)), rows=[[1.0]])
    received = "inputs of shape (2, 8), other of shape (None, 9)."
    with pytest.raises(ValueError, match=re.escape(f"must have one shape. Received: {received}")):
        check_alike(inputs=np.zeros((2, 8)), other=keras.KerasTensor((None, 9)))
