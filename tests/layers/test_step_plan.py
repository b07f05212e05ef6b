import re

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer.layers import AttentionCache
from keras_transformer.layers.cached_attention import plan_step


def cache() -> AttentionCache:
    return AttentionCache.create(3, 2, 2, num_heads=4, key_dim=5, value_dim=5, dtype="float32")


def test_what_all_layers_of_a_step_need() -> None:
    visible = np.zeros((2, 1, 2, 6), "bool")
    visible[..., :2] = True
    mask = np.array([[1, 1, 0], [1, 0, 0]], "bool")
    plan = plan_step(cache(), 1, keras.ops.convert_to_tensor(visible), 4, keras.ops.convert_to_tensor(mask))
    assert plan.position == 1
    assert plan.hypotheses.number == 2
    np.testing.assert_array_equal(array(plan.bias) == 0, visible)
    assert plan.encoder_bias is not None
    np.testing.assert_array_equal(array(plan.encoder_bias) == 0, mask[:, None, None, :])


def test_without_a_mask_nothing_of_the_encoder_is_hidden() -> None:
    plan = plan_step(cache(), 0, keras.ops.ones((2, 1, 2, 6), "bool"), 4)
    assert plan.encoder_bias is None


def test_a_position_that_there_is_no_room_for() -> None:
    message = "`position` must be at least 0 and below max_length=3. Received: position=3."
    with pytest.raises(ValueError, match=re.escape(message)):
        plan_step(cache(), 3, keras.ops.ones((2, 1, 2, 6), "bool"), 4)
