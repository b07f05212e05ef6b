import numpy as np
from keras import ops

from helpers import array, draw
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers.relative_position_keys import RelativePositionKeys


def test_against_equation_4() -> None:
    """Shaw et al. 2018: softmax(q (k + a) / sqrt(d)), where `a` depends on the clipped distance."""
    attention = MultiHeadAttention(2, 4, positions="relative_keys")
    x = draw(3, 70, 7)
    attention(x, x)
    keys = draw(65, 4, seed=1)
    attention.position_bias.keys.assign(keys)
    output, scores = attention(x, x, return_attention_scores=True)

    queries, shared, values = (
        np.einsum("btd,dhk->bhtk", x, array(part.kernel)) + array(part.bias)[:, None]
        for part in (attention.query_dense, attention.key_dense, attention.value_dense)
    )
    expected = np.zeros((3, 2, 70, 70))
    for query in range(70):
        for key in range(70):
            distance = keys[min(max(key - query, -32), 32) + 32]
            product = queries[:, :, query] * (shared[:, :, key] + distance)
            expected[:, :, query, key] = np.exp(product.sum(-1) / 2)
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(array(scores), expected, atol=1e-5)
    heads = np.einsum("bhts,bhsk->bthk", expected, values)
    dense = attention.output_dense
    expected_output = np.einsum("bthk,hkd->btd", heads, array(dense.kernel)) + array(dense.bias)
    np.testing.assert_allclose(array(output), expected_output, atol=1e-4)


def test_a_later_start() -> None:
    layer, query = RelativePositionKeys(), ops.convert_to_tensor(draw(2, 6, 3, 4))
    layer.build(query.shape)
    whole = array(layer.logits(query, 9))
    np.testing.assert_allclose(array(layer.logits(query[:, 2:], 9, start=2)), whole[:, :, 2:], atol=1e-6)
