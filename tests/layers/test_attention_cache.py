import re
from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer.layers import AttentionCache

array = keras.ops.convert_to_numpy


def create(max_length: int = 5, batch_size: int = 2, dtype: str = "float32") -> AttentionCache:
    return AttentionCache.create(max_length, batch_size, num_heads=3, key_dim=7, value_dim=11, dtype=dtype)


def numbered(width: int, offset: int = 0) -> Any:
    """The key or value of one position, every number different: `(2, 1, 3, width)`."""
    return (np.arange(2 * 3 * width, dtype="float32") + 1 + offset).reshape(2, 1, 3, width)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_create(dtype: str) -> None:
    cache = create(dtype=dtype)
    assert tuple(cache.keys.shape) == (5, 2, 3, 7)
    assert tuple(cache.values.shape) == (5, 2, 3, 11)
    assert keras.backend.standardize_dtype(cache.keys.dtype) == dtype
    assert not np.any(array(keras.ops.cast(cache.keys, "float32")))


@pytest.mark.parametrize("position", [0, 3, 4])
def test_append_writes_one_position(position: int) -> None:
    cache = create().append(numbered(7), numbered(11), position)
    keys, values = (array(part) for part in cache.batch_first())
    np.testing.assert_array_equal(keys[:, position], numbered(7)[:, 0])
    np.testing.assert_array_equal(values[:, position], numbered(11)[:, 0])
    assert not np.any(np.delete(keys, position, axis=1))
    assert not np.any(np.delete(values, position, axis=1))


def test_append_keeps_what_was_there_and_the_old_cache() -> None:
    empty = create()
    first = empty.append(numbered(7), numbered(11), 0)
    second = first.append(numbered(7, 100), numbered(11, 100), keras.ops.convert_to_tensor(1))
    np.testing.assert_array_equal(array(second.keys)[0], numbered(7)[:, 0])
    np.testing.assert_array_equal(array(second.keys)[1], numbered(7, 100)[:, 0])
    assert not np.any(array(first.keys)[1])
    assert not np.any(array(empty.keys))


def test_batch_first() -> None:
    keys, values = create().batch_first()
    assert tuple(keys.shape) == (2, 5, 3, 7)
    assert tuple(values.shape) == (2, 5, 3, 11)


@pytest.mark.parametrize("rows", [[1, 0], [0, 0], [1]])
def test_reorder(rows: list[int]) -> None:
    cache = create().append(numbered(7), numbered(11), 2)
    reordered = cache.reorder(keras.ops.convert_to_tensor(rows))
    np.testing.assert_array_equal(array(reordered.keys), array(cache.keys)[:, rows])
    np.testing.assert_array_equal(array(reordered.values), array(cache.values)[:, rows])


@pytest.mark.parametrize("position", [-1, 3])
def test_positions_that_there_is_no_room_for(position: int) -> None:
    cache = AttentionCache.create(3, 2, num_heads=1, key_dim=2, value_dim=2, dtype="float32")
    new = keras.ops.ones((2, 1, 1, 2))
    message = f"`position` must be at least 0 and below max_length=3. Received: position={position}."
    with pytest.raises(ValueError, match=re.escape(message)):
        cache.append(new, new, position)
