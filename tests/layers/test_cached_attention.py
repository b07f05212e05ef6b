"""One position at a time against the whole sequence."""

import re
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from helpers import array, draw
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers.cached_attention import _CachedAttention

OPTIONS: list[dict[str, Any]] = [
    {},
    {"sliding_window": 2},
    {"positions": "rotary"},
    {"positions": "relative"},
    {"positions": "relative_keys"},
    {"positions": "relative_sinusoidal"},
    {"use_gate": True},
    {"use_bias": False},
    {"num_key_value_heads": 2, "value_dim": 3},
    {"num_key_value_heads": 1, "positions": "relative", "sliding_window": 3},
    {"num_key_value_heads": 2, "positions": "relative_keys", "sliding_window": 3},
    {"num_key_value_heads": 2, "positions": "relative_sinusoidal", "sliding_window": 3},
]


def made(*inputs: Any, **options: Any) -> MultiHeadAttention:
    layer = MultiHeadAttention(**{"num_heads": 4, "key_dim": 6, "dropout": 0.3, **options})
    layer(*inputs)
    layer.set_weights([0.5 * draw(*w.shape, seed=number) for number, w in enumerate(layer.weights)])
    return layer


def visible(num_positions: int, num_hypotheses: int, position: int) -> Any:
    """Each hypothesis sees what it wrote itself."""
    slots = np.arange(num_positions * num_hypotheses)
    own = slots % num_hypotheses == np.arange(num_hypotheses)[:, None]
    return ops.convert_to_tensor((own & (slots // num_hypotheses <= position))[None])


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("num_hypotheses", [1, 3])
@pytest.mark.parametrize("max_length", [5, 8])
def test_steps_equal_the_causal_pass(options: Any, num_hypotheses: int, max_length: int) -> None:
    x = draw(2 * num_hypotheses, 5, 7)
    layer = made(x, x, **options)
    whole = array(layer(x, x, use_causal_mask=True))
    cached = _CachedAttention(layer)
    cache = cached.create(max_length, 2, num_hypotheses)
    for position in range(5):
        step = cached.plan(position, cache, visible(max_length, num_hypotheses, position))
        output, cache = cached.step(ops.convert_to_tensor(x[:, position]), cache, step)
        np.testing.assert_allclose(array(output), whole[:, position], atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"use_gate": True}, {"num_key_value_heads": 2, "value_dim": 3}])
@pytest.mark.parametrize("num_hypotheses", [1, 3])
@pytest.mark.parametrize("mask", [None, [[1, 1, 1], [1, 0, 0]], [[1, 1, 1], [0, 0, 0]]])
def test_steps_over_an_encoder_output(options: Any, num_hypotheses: int, mask: Any) -> None:
    x, memory = draw(2 * num_hypotheses, 1, 7), draw(2, 3, 5, seed=1)
    layer = made(x, np.repeat(memory, num_hypotheses, axis=0), **options)
    mask = None if mask is None else np.array(mask)
    repeated = [None if part is None else np.repeat(part, num_hypotheses, axis=0) for part in (memory, mask)]
    whole = layer(x, repeated[0], padding_mask=repeated[1])
    cached = _CachedAttention(layer, is_causal=False)
    cache = cached.project(ops.convert_to_tensor(memory), mask)
    own = _CachedAttention(made(x, x)).create(1, 2, num_hypotheses)
    step = cached.plan(0, own, visible(1, num_hypotheses, 0), encoder_padding_mask=mask)
    output, same = cached.step(ops.convert_to_tensor(x[:, 0]), cache, step)
    np.testing.assert_allclose(array(output), array(whole)[:, 0], atol=1e-5)
    assert same is cache


def test_hypotheses_that_are_mixed_up_see_their_ancestors() -> None:
    x = draw(2, 3, 8, seed=4)
    layer = made(x, x)
    cached = _CachedAttention(layer)
    cache = cached.create(3, 1, 2)
    for position in range(2):
        step = cached.plan(position, cache, visible(3, 2, position))
        _, cache = cached.step(ops.convert_to_tensor(x[:, position]), cache, step)
    # Both go on from the second hypothesis: slots 1 and 3, and their own of the last position.
    seen = np.array([[0, 1, 0, 1, 1, 0], [0, 1, 0, 1, 0, 1]], bool)[None]
    step = cached.plan(2, cache, ops.convert_to_tensor(seen))
    output, _ = cached.step(ops.convert_to_tensor(x[:, 2]), cache, step)
    same = np.stack([np.concatenate([x[1, :2], x[row, 2:]]) for row in range(2)])
    np.testing.assert_allclose(array(output), array(layer(same, same, use_causal_mask=True))[:, 2], atol=1e-5)


@pytest.mark.parametrize("rows", [[1, 0], [0, 0], [1]])
def test_rows_and_room(rows: list[int]) -> None:
    x = draw(2, 3, 7)
    layer = made(x, x)
    cached = _CachedAttention(layer)
    cache = cached.create(1, 2)
    _, cache = cached.step(ops.convert_to_tensor(x[:, 0]), cache, cached.plan(0, cache, visible(1, 1, 0)))
    cache = keras.tree.map_structure(lambda part: ops.take(part, rows, axis=0), cache).grow(2)
    x = x[rows]
    assert tuple(cache.keys.shape) == (len(rows), 4, 3, 6)
    assert not array(cache.keys)[:, :, 1:].any()
    step = cached.plan(1, cache, visible(3, 1, 1))
    output, _ = cached.step(ops.convert_to_tensor(x[:, 1]), cache, step)
    np.testing.assert_allclose(array(output), array(layer(x, x, use_causal_mask=True))[:, 1], atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_the_cache_has_the_dtype_that_is_computed_in(dtype: str) -> None:
    x = draw(1, 1, 7)
    layer = made(x, x, dtype=dtype, num_key_value_heads=2, value_dim=3)
    cache = _CachedAttention(layer).create(5, 2, 3)
    assert [tuple(part.shape) for part in cache] == [(2, 2, 15, 6), (2, 2, 15, 3)]
    assert {part.dtype for part in cache} == {ops.zeros((), layer.compute_dtype).dtype}


def test_the_old_cache_is_left_alone() -> None:
    x = draw(2, 1, 7)
    cached = _CachedAttention(made(x, x))
    empty = cached.create(3, 2)
    cached.step(ops.convert_to_tensor(x[:, 0]), empty, cached.plan(1, empty, visible(3, 1, 1)))
    assert not array(empty.keys).any()


@pytest.mark.parametrize(
    ("position", "limits"),
    [(-1, "at least 0"), (3, "at least 0 and below max_length=3"), (np.int64(3), "at least 0 and below")],
)
def test_positions_that_there_is_no_room_for(position: int, limits: str) -> None:
    x = draw(2, 1, 7)
    cached = _CachedAttention(made(x, x))
    cache = cached.create(3, 2)
    message = f"`position` must be {limits}"
    with pytest.raises(ValueError, match=re.escape(message)):
        cached.plan(position, cache, visible(3, 1, 0))
