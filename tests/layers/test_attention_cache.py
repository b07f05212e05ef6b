import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer.layers import AttentionCache


def create(max_length: int = 5, beam_size: int = 1, dtype: str = "float32") -> AttentionCache:
    return AttentionCache.create(max_length, 2, beam_size, num_heads=3, key_dim=7, value_dim=11, dtype=dtype)


def numbered(width: int, offset: int = 0, rows: int = 2) -> Any:
    """The key or value of one position of two sources, every number different: `(2, 3, n, width)`."""
    return (np.arange(rows * 3 * width, dtype="float32") + 1 + offset).reshape(2, 3, rows // 2, width)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_create(dtype: str) -> None:
    cache = create(dtype=dtype, beam_size=2)
    assert tuple(cache.keys.shape) == (2, 3, 10, 7)
    assert tuple(cache.values.shape) == (2, 3, 10, 11)
    assert keras.backend.standardize_dtype(cache.keys.dtype) == dtype
    assert not np.any(array(keras.ops.cast(cache.keys, "float32")))


@pytest.mark.parametrize("position", [0, 3, 4])
def test_append_writes_one_position(position: int) -> None:
    keys, values = map(array, create().append(numbered(7), numbered(11), position))
    np.testing.assert_array_equal(keys[:, :, position], numbered(7)[:, :, 0])
    np.testing.assert_array_equal(values[:, :, position], numbered(11)[:, :, 0])
    assert not np.any(np.delete(keys, position, axis=2))
    assert not np.any(np.delete(values, position, axis=2))


def test_hypotheses_of_a_source_lie_side_by_side() -> None:
    new = numbered(7, rows=6)
    keys = array(create(beam_size=3).append(new, numbered(11, rows=6), 2, beam_size=3).keys)
    np.testing.assert_array_equal(keys[:, :, 6:9], new)
    assert not np.any(np.delete(keys, [6, 7, 8], axis=2))


def test_append_keeps_what_was_there_and_the_old_cache() -> None:
    empty = create()
    first = empty.append(numbered(7), numbered(11), 0)
    second = first.append(numbered(7, 100), numbered(11, 100), keras.ops.convert_to_tensor(1))
    np.testing.assert_array_equal(array(second.keys)[:, :, 0], numbered(7)[:, :, 0])
    np.testing.assert_array_equal(array(second.keys)[:, :, 1], numbered(7, 100)[:, :, 0])
    assert not np.any(array(first.keys)[:, :, 1])
    assert not np.any(array(empty.keys))


@pytest.mark.parametrize("rows", [[1, 0], [0, 0], [1]])
def test_select(rows: list[int]) -> None:
    cache = create().append(numbered(7), numbered(11), 2)
    selected = cache.select(keras.ops.convert_to_tensor(rows))
    np.testing.assert_array_equal(array(selected.keys), array(cache.keys)[rows])
    np.testing.assert_array_equal(array(selected.values), array(cache.values)[rows])


def test_grow_keeps_what_was_written() -> None:
    cache = create(2, beam_size=2).append(numbered(7, rows=4), numbered(11, rows=4), 1, beam_size=2)
    grown = cache.grow(3, beam_size=2)
    assert tuple(grown.keys.shape) == (2, 3, 10, 7)
    np.testing.assert_array_equal(array(grown.keys)[:, :, :4], array(cache.keys))
    assert not np.any(array(grown.values)[:, :, 4:])
    grown.append(numbered(7, rows=4), numbered(11, rows=4), 4, beam_size=2)


def test_each_hypothesis_sees_its_own_slots() -> None:
    visible = array(create(3, beam_size=2).own_slots(4, 1))
    expected = [[True, False, True, False, False, False], [False, True, False, True, False, False]]
    np.testing.assert_array_equal(visible, [[expected]])
    np.testing.assert_array_equal(array(create(3).own_slots(None, 1)), [[[[True, True, False]]]])


@pytest.mark.parametrize("position", [-1, 3])
def test_positions_that_there_is_no_room_for(position: int) -> None:
    cache = AttentionCache.create(3, 2, num_heads=1, key_dim=2, value_dim=2, dtype="float32")
    new = keras.ops.ones((2, 1, 1, 2))
    message = f"`position` must be at least 0 and below max_length=3. Received: position={position}."
    with pytest.raises(ValueError, match=re.escape(message)):
        cache.append(new, new, position)
