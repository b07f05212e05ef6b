import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer.layers import MultiHeadAttention, causal_mask, combine_masks, padding_mask

T, F = True, False


def test_padding_mask() -> None:
    mask = array(padding_mask(np.array([[5, 1, 0], [0, 7, 2]])))
    assert mask.dtype == bool
    assert mask.tolist() == [[T, T, F], [F, T, T]]


def test_padding_mask_of_another_id() -> None:
    assert array(padding_mask(np.array([[0, 3]]), pad_id=3)).tolist() == [[T, F]]


def test_causal_mask() -> None:
    mask = array(causal_mask(3, 3))
    assert mask.dtype == bool
    assert mask.tolist() == [[T, F, F], [T, T, F], [T, T, T]]


def test_causal_mask_starts_where_the_keys_start() -> None:
    assert array(causal_mask(2, 5)).tolist() == [[T, F, F, F, F], [T, T, F, F, F]]
    assert array(causal_mask(3, 2)).tolist() == [[T, F], [T, T], [T, T]]


def test_causal_mask_of_later_queries() -> None:
    assert array(causal_mask(2, 5, start=3)).tolist() == [[T, T, T, T, F], [T, T, T, T, T]]


def test_window_mask() -> None:
    attention, query, value = (
        MultiHeadAttention(1, 2, sliding_window=2),
        np.ones((1, 3, 4)),
        np.ones((1, 4, 4)),
    )
    _, scores = attention(query, value, return_attention_scores=True)
    assert (array(scores)[0, 0] > 0).tolist() == [[T, T, F, F], [T, T, T, F], [F, T, T, T]]


def test_nothing_to_combine() -> None:
    assert combine_masks() is None


def test_padding_covers_keys() -> None:
    mask = array(combine_masks(padding_mask=np.array([[T, T, F], [T, F, F]])))
    assert mask.shape == (2, 1, 1, 3)
    assert mask[1, 0, 0].tolist() == [T, F, F]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((3, 5), (1, 1, 3, 5)),
        ((2, 3, 5), (2, 1, 3, 5)),
        ((2, 1, 3, 5), (2, 1, 3, 5)),
        ((2, 7, 3, 5), (2, 7, 3, 5)),
        ((2, 1, 5), (2, 1, 1, 5)),
    ],
)
def test_attention_mask_shapes(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert array(combine_masks(attention_mask=np.ones(shape, bool))).shape == expected


def test_a_square_padding_mask_is_not_an_attention_mask() -> None:
    square = np.array([[T, F], [T, T]])
    covers_keys = array(combine_masks(padding_mask=square))
    covers_scores = array(combine_masks(attention_mask=square))
    assert covers_keys.shape == (2, 1, 1, 2)
    assert covers_scores.shape == (1, 1, 2, 2)
    both = np.broadcast_arrays(covers_keys, covers_scores)
    assert not np.array_equal(both[0], both[1])


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "uint8", "float32"])
def test_any_dtype_of_zeros_and_ones(dtype: str) -> None:
    mask = array(combine_masks(padding_mask=np.array([[1, 1, 0]], dtype)))
    assert mask.dtype == bool
    assert mask.tolist() == [[[[T, T, F]]]]


def test_lists_are_read() -> None:
    assert array(combine_masks(padding_mask=[[1, 0]])).tolist() == [[[[T, F]]]]


def test_every_mask_has_a_say() -> None:
    mask = combine_masks(
        padding_mask=np.array([[T, T, F], [T, T, T]]),
        attention_mask=np.array([[T, T, T], [T, T, T], [F, T, T]]),
        causal_mask=causal_mask(3, 3),
    )
    assert array(mask)[:, 0].tolist() == [
        [[T, F, F], [T, T, F], [F, T, F]],
        [[T, F, F], [T, T, F], [F, T, T]],
    ]


def test_symbolic_masks() -> None:
    mask = combine_masks(padding_mask=keras.KerasTensor((None, 5), dtype="int32"))
    assert mask is not None
    assert tuple(mask.shape) == (None, 1, 1, 5)


@pytest.mark.parametrize("shape", [(3,), (2, 3, 5), (2, 1, 1, 3)])
def test_padding_mask_of_another_rank(shape: tuple[int, ...]) -> None:
    message = f"`padding_mask` must have the shape (b, s). Received: shape={shape}. A mask over queries"
    with pytest.raises(ValueError, match=re.escape(message)):
        combine_masks(padding_mask=np.ones(shape, bool))


@pytest.mark.parametrize("shape", [(3,), (1, 2, 1, 3, 5)])
def test_attention_mask_of_another_rank(shape: tuple[int, ...]) -> None:
    message = f"must have the shape (t, s), (b, t, s), (b, 1, t, s) or (b, h, t, s). Received: shape={shape}."
    with pytest.raises(ValueError, match=re.escape(message)):
        combine_masks(attention_mask=np.ones(shape, bool))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (None, None, None),
        ([[T, F]], None, [[T, F]]),
        (None, [[T, F]], [[T, F]]),
        ([[T, F]], [[T, T]], [[T, F]]),
    ],
)
def test_keras_masks_of_keys_and_values(first: Any, second: Any, expected: Any) -> None:
    first, second = (None if mask is None else keras.ops.convert_to_tensor(mask) for mask in (first, second))
    both = combine_masks(value_mask=first, key_mask=second)
    assert (both if both is None else array(both)[:, 0, 0].tolist()) == expected
    explicit = combine_masks(padding_mask=[[F, T]], value_mask=first, key_mask=second)
    assert array(explicit)[:, 0, 0].tolist() == [[F, T]]


SCORES = (2, 3, 5, 7)  # (b, h, t, s)


@pytest.mark.parametrize("shape", [(2, 5), (3, 7), (2, 1, 7), (2, 1)])
def test_padding_mask_of_another_size(shape: tuple[int, ...]) -> None:
    message = f"`padding_mask` must have the shape (b, s) = (2, 7). Received: shape={shape}."
    with pytest.raises(ValueError, match=re.escape(message)):
        combine_masks(padding_mask=np.ones(shape, bool), scores_shape=SCORES)


@pytest.mark.parametrize("shape", [(2, 7), (7, 5), (3, 5, 7), (2, 2, 5, 7), (2, 5, 1, 7)])
def test_attention_mask_of_another_size(shape: tuple[int, ...]) -> None:
    message = f"with (b, h, t, s) = {SCORES}. Received: shape={shape}. A mask over keys alone"
    message = message.replace("with ", "")
    with pytest.raises(ValueError, match=re.escape(message)):
        combine_masks(attention_mask=np.ones(shape, bool), scores_shape=SCORES)


@pytest.mark.parametrize("name", ["padding_mask", "attention_mask"])
@pytest.mark.parametrize("values", [[["a", "b"]], [[1j, 0]]])
def test_masks_of_neither_booleans_nor_numbers(values: Any, name: str) -> None:
    with pytest.raises(
        TypeError, match=f"`{name}` must hold booleans, or the numbers 0 and 1. Received: dtype="
    ):
        combine_masks(**{name: np.array(values)})


@pytest.mark.parametrize("value", [-1e9, 0.5, 2.0])
def test_a_mask_that_would_be_added_to_the_scores_is_refused(value: float) -> None:
    message = (
        f"`attention_mask` must hold 1 where a key may be attended to, and 0 elsewhere. Received: {value}."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        combine_masks(attention_mask=np.array([[0.0, value]], "float32"))
    integers = np.array([[0, -9999]])
    with pytest.raises(ValueError, match=re.escape("Received: -9999.")):
        combine_masks(attention_mask=integers)


def test_a_mask_that_would_be_added_allows_nothing_while_a_graph_is_traced() -> None:
    tf = pytest.importorskip("tensorflow")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("traces with TensorFlow")
    combine = tf.function(lambda mask: combine_masks(attention_mask=mask))
    assert not array(combine(tf.constant([[0.0, -1e9]]))).any()
    assert array(combine(tf.constant([[0.0, 1.0]])))[0, 0].tolist() == [[F, T]]


@pytest.mark.parametrize(
    "name", ["padding_mask", "attention_mask", "causal_mask", "window_mask", "key_mask", "value_mask"]
)
def test_no_mask_is_read_as_its_opposite(name: str) -> None:
    added = np.array([[0.0, -1e9]], "float32")
    message = rf"`{name}` must hold 1 where .* Received: -1000000000"
    with pytest.raises(ValueError, match=message):
        combine_masks(**{name: added})


def test_a_start_of_any_integer_type() -> None:
    for start in (np.int64(1), keras.ops.convert_to_tensor(1, "int16")):
        assert array(causal_mask(2, 3, start=start)).tolist() == [[T, T, F], [T, T, T]]
