"""Masks of every shape and dtype become what attention takes."""

from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer.course.functions import read_mask

B, H, T, S = 2, 3, 5, 7
SCORES = (B, H, T, S)
KEYS = np.array([[1, 1, 1, 1, 1, 0, 0], [1, 0, 1, 0, 0, 0, 0]])
MATRIX = np.tril(np.ones((T, S), int), 2)


def over_scores(mask: Any) -> Any:
    """Spread what `read_mask` gave over all scores, as attention does."""
    mask = array(mask)
    return np.broadcast_to(mask if mask.ndim == 4 else mask[:, None], SCORES)


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "bool"])
@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize(
    "mask",
    [KEYS, KEYS[:, None], KEYS[:, None, None], np.broadcast_to(KEYS[:, None], (B, T, S))],
    ids=["(b, s)", "(b, 1, s)", "(b, 1, 1, s)", "(b, t, s)"],
)
def test_padding(mask: Any, dtype: str, as_tensor: bool) -> None:
    mask = mask.astype(dtype)
    result = read_mask("mask", keras.ops.convert_to_tensor(mask) if as_tensor else mask, SCORES, "keys")
    assert keras.backend.standardize_dtype(result.dtype) == "bool"
    np.testing.assert_array_equal(over_scores(result), np.broadcast_to(KEYS[:, None, None], SCORES))


@pytest.mark.parametrize("mask", [KEYS[:1], KEYS[:1, None], KEYS[:1, None, None]])
def test_one_padding_for_all_rows(mask: Any) -> None:
    result = over_scores(read_mask("mask", mask, SCORES, "keys"))
    np.testing.assert_array_equal(result, np.broadcast_to(KEYS[0], SCORES))


@pytest.mark.parametrize(
    "mask",
    [
        MATRIX,
        MATRIX[None],
        np.stack([MATRIX] * B),
        np.stack([MATRIX] * B)[:, None],
        np.tile(MATRIX, (B, H, 1, 1)),
    ],
    ids=["(t, s)", "(1, t, s)", "(b, t, s)", "(b, 1, t, s)", "(b, h, t, s)"],
)
def test_queries_and_keys(mask: Any) -> None:
    result = over_scores(read_mask("look_ahead_mask", mask, SCORES, "queries and keys"))
    np.testing.assert_array_equal(result, np.broadcast_to(MATRIX, SCORES))


def test_rank_2_means_what_the_argument_says_even_in_a_square() -> None:
    square, scores = np.array([[1, 0], [1, 1]]), (2, 3, 2, 2)
    assert tuple(read_mask("mask", square, scores, "keys").shape) == (2, 1, 2)
    assert tuple(read_mask("look_ahead_mask", square, scores, "queries and keys").shape) == (1, 2, 2)


def test_no_mask() -> None:
    assert read_mask("mask", None, SCORES, "keys") is None


def test_unknown_sizes_are_left_to_the_run() -> None:
    mask = keras.KerasTensor((None, 1, None), "int32")
    assert tuple(read_mask("mask", mask, SCORES, "keys").shape) == (None, 1, None)
    assert tuple(read_mask("mask", KEYS, (None, H, None, None), "keys").shape) == (B, 1, S)


@pytest.mark.parametrize(
    ("shape", "covers"),
    [
        ((S,), "keys"),
        ((T, S), "keys"),
        ((B, T), "keys"),
        ((B, S), "queries and keys"),
        ((1, T), "queries and keys"),
        ((B, S, 1), "keys"),
        ((B, 1, 1), "keys"),
        ((3, 1, S), "keys"),
        ((B, 2, S), "keys"),
        ((B, 2, T, S), "queries and keys"),
        ((1, 1, 1, 1, S), "keys"),
        ((), "keys"),
    ],
)
def test_wrong_shapes(shape: tuple[int, ...], covers: Any) -> None:
    rank_2 = r"\(b, s\)" if covers == "keys" else r"\(t, s\)"
    received = str(shape).replace("(", r"\(").replace(")", r"\)")
    message = rf"`enc_mask` must have the shape {rank_2}, .* = \(2, 3, 5, 7\). Received: shape={received}\."
    with pytest.raises(ValueError, match=message):
        read_mask("enc_mask", np.ones(shape), SCORES, covers)
