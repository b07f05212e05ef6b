import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer import layers


@pytest.mark.parametrize("options", [{}, {"in_place": True}])
def test_steps_give_what_the_call_over_the_whole_target_gives(options: dict[str, bool]) -> None:
    decoder = layers.Decoder(num_layers=2, num_heads=2, intermediate_dim=13)
    memory, targets = draw(3, 7, 5), draw(3, 4, 6, seed=1)
    mask = np.array([[True] * 7, [True] * 3 + [False] * 4, [True] * 5 + [False] * 2])
    wanted = array(decoder(targets, memory, encoder_padding_mask=mask))
    cached = layers.CachedDecoder(decoder, **options)
    cache = cached.create_cache(keras.ops.convert_to_tensor(memory), mask, max_length=4)
    for position in range(4):
        outputs, cache = cached.step(keras.ops.convert_to_tensor(targets[:, [position]]), position, cache)
        np.testing.assert_allclose(array(outputs)[:, 0], wanted[:, position], rtol=1e-5, atol=1e-5)
