"""One position at a time against the whole sequence."""

import numpy as np
import pytest
from keras import ops

from helpers import array
from keras_transformer.layers import MultiHeadAttention

OPTIONS = [
    {},
    {"sliding_window": 2},
    {"positions": "rotary"},
    {"positions": "relative"},
    {"use_gate": True},
    {"num_key_value_heads": 2, "value_dim": 3},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_steps_of_hypotheses_side_by_side(options: dict, beam_size: int) -> None:
    layer = MultiHeadAttention(4, 6, **options)
    x = np.random.default_rng(3).normal(size=(2 * beam_size, 5, 7)).astype("float32")
    whole = array(layer(x, x, use_causal_mask=True))
    cache = layer.create_cache(5, 2, beam_size)
    for position in range(5):
        output, cache = layer.step(ops.convert_to_tensor(x[:, position : position + 1]), cache, position)
        np.testing.assert_allclose(array(output)[:, 0], whole[:, position], atol=1e-5)


def test_hypotheses_that_are_mixed_up_see_their_ancestors() -> None:
    layer = MultiHeadAttention(2, 4)
    x = np.random.default_rng(4).normal(size=(2, 3, 8)).astype("float32")
    layer(x, x)
    cache = layer.create_cache(3, 1, 2)
    for position in range(2):
        _, cache = layer.step(ops.convert_to_tensor(x[:, position : position + 1]), cache, position)
    # Both go on from the second hypothesis: slots 1 and 3, and their own of the last position.
    visible = np.array([[0, 1, 0, 1, 1, 0], [0, 1, 0, 1, 0, 1]], bool)[None, None]
    output, _ = layer.step(ops.convert_to_tensor(x[:, 2:]), cache, 2, ops.convert_to_tensor(visible))
    same = np.stack([np.concatenate([x[1, :2], x[row, 2:]]) for row in range(2)])
    expected = array(layer(same, same, use_causal_mask=True))[:, 2]
    np.testing.assert_allclose(array(output)[:, 0], expected, atol=1e-5)
