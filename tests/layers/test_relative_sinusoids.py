import numpy as np
from keras import ops

from helpers import array, draw
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers.relative_sinusoids import RelativeSinusoids


def _encoding(distance: int, num_waves: int) -> np.ndarray:
    """Cosines, then sines, of wavelengths from 2 pi on."""
    angles = distance * 10000.0 ** (-np.arange(num_waves) / num_waves)
    return np.concatenate([np.cos(angles), np.sin(angles)])


def test_against_the_equation_of_transformer_xl() -> None:
    """Dai et al. 2019, section 3.3: the terms (a) to (d) of the attention logits."""
    attention = MultiHeadAttention(2, 4, positions="relative_sinusoidal")
    x = draw(3, 70, 7)
    attention(x, x)
    attention.query_dense.bias.assign(draw(2, 4, seed=1))
    attention.position_bias.bias.assign(draw(2, 4, seed=2))
    _, scores = attention(x, x, return_attention_scores=True)

    queries, keys = (
        np.einsum("btd,dhk->bthk", x, array(part.kernel))
        for part in (attention.query_dense, attention.key_dense)
    )
    keys += array(attention.key_dense.bias)
    content, kernel = array(attention.query_dense.bias), array(attention.position_bias.kernel)
    # Our query bias belongs to both, so that the second vector of the paper is a sum here.
    position = content + array(attention.position_bias.bias)
    expected = np.zeros((3, 2, 70, 70))
    for query in range(70):
        for key in range(70):
            relative = kernel @ _encoding(key - query, 4)  # (h, k)
            ab = ((queries[:, query] + position) * relative).sum(-1)
            cd = ((queries[:, query] + content) * keys[:, key]).sum(-1)
            expected[:, :, query, key] = np.exp((ab + cd) / 2)
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(array(scores), expected, atol=2e-5)


def test_a_later_start_and_a_distant_position() -> None:
    layer, query = RelativeSinusoids(), ops.convert_to_tensor(draw(2, 6, 3, 4))
    layer.build(query.shape)
    whole = array(layer.logits(query, 9))
    np.testing.assert_allclose(array(layer.logits(query[:, 2:], 9, start=2)), whole[:, :, 2:], atol=1e-5)
    steps = [array(layer.logits(query[:, at : at + 1], 9, start=at)) for at in range(6)]
    np.testing.assert_allclose(np.concatenate(steps, axis=2), whole, atol=1e-5)
    # Only distances count: the last keys of 5,000 for the last queries.
    far = array(layer.logits(query, 5000, start=4994))
    np.testing.assert_allclose(far[..., 4994:], array(layer.logits(query, 6)), atol=1e-4)


def test_no_query_and_one_key() -> None:
    layer = RelativeSinusoids()
    layer.build((2, None, 3, 4))
    assert layer.logits(ops.zeros((2, 1, 3, 4)), 1).shape == (2, 3, 1, 1)
    assert layer.logits(ops.zeros((2, 0, 3, 4)), 5).shape == (2, 3, 0, 5)
