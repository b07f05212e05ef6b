import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw, named_weights
from keras_transformer.layers import MultiHeadAttention, dot_product_attention


def built(**options: Any) -> Any:
    layer = MultiHeadAttention(**{"num_heads": 6, "key_dim": 5, **options})
    layer.build((None, None, 9), (None, None, 13), (None, None, 11))
    return layer


def test_kernels_have_the_letters_of_their_einsums() -> None:
    layer = built(value_dim=7, output_shape=17, use_gate=True, num_key_value_heads=2)
    assert [(name, weight.shape) for name, weight in named_weights(layer.weights).items()] == [
        ("query_kernel", (9, 6, 5)),
        ("query_bias", (6, 5)),
        ("key_kernel", (11, 2, 5)),
        ("key_bias", (2, 5)),
        ("gate_kernel", (9, 6, 7)),
        ("gate_bias", (6, 7)),
        ("value_kernel", (13, 2, 7)),
        ("value_bias", (2, 7)),
        ("output_kernel", (6, 7, 17)),
        ("output_bias", (17,)),
    ]


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_groups_of_heads_share_keys_and_values(groups: int) -> None:
    """Equal to ordinary attention whose heads have the shared kernels each."""
    grouped, plain, x = (
        built(num_key_value_heads=groups),
        built(),
        [draw(2, 5, 9), draw(2, 3, 13), draw(2, 3, 11)],
    )
    grouped.set_weights([0.3 * draw(*w.shape, seed=number) for number, w in enumerate(grouped.weights)])
    weights = named_weights(grouped.weights)
    for name in ("key", "value"):
        weights[f"{name}_kernel"] = np.repeat(weights[f"{name}_kernel"], 6 // groups, axis=1)
        weights[f"{name}_bias"] = np.repeat(weights[f"{name}_bias"], 6 // groups, axis=0)
    plain.set_weights([weights[name] for name in named_weights(plain.weights)])
    for call in ({}, {"return_attention_scores": True}):
        output, expected = grouped(*x, **call), plain(*x, **call)
        for one, other in zip(
            *[each if isinstance(each, tuple) else (each,) for each in (output, expected)], strict=True
        ):
            np.testing.assert_allclose(array(one), array(other), atol=1e-5)


def test_neighbouring_heads_make_a_group() -> None:
    query, key = draw(1, 1, 4, 3), draw(1, 5, 2, 3)
    _, scores = dot_product_attention(query, key, key)
    for head in range(4):
        logits = query[0, 0, head] @ key[0, :, head // 2].T / np.sqrt(3)
        np.testing.assert_allclose(
            array(scores)[0, head, 0], np.exp(logits) / np.exp(logits).sum(), atol=1e-6
        )


def test_initializers_regularizers_and_constraints() -> None:
    layer = built(
        kernel_initializer="ones",
        bias_initializer="ones",
        kernel_regularizer=keras.regularizers.L2(0.5),
        bias_regularizer="l2",
        kernel_constraint="non_neg",
        bias_constraint="unit_norm",
    )
    assert all((array(weight) == 1).all() for weight in layer.weights)
    kernels = 9 * 30 + 11 * 30 + 13 * 30 + 30 * 9
    assert float(array(sum(layer.losses))) == pytest.approx(0.5 * kernels + 0.01 * (3 * 30 + 9), rel=1e-5)
    assert isinstance(layer.key_dense.kernel.constraint, keras.constraints.NonNeg)
    assert isinstance(layer.key_dense.bias.constraint, keras.constraints.UnitNorm)


def test_activity_regularizer() -> None:
    layer, x = MultiHeadAttention(2, 3, activity_regularizer="l2"), draw(1, 5, 7)
    output = array(layer(x, x))
    assert float(array(layer.losses[0])) == pytest.approx(0.01 * (output**2).sum(), rel=1e-3)


def test_sizes_that_numpy_has_counted() -> None:
    layer = built(num_heads=np.int64(2), value_dim=np.int64(7), output_shape=np.int64(17))
    assert tuple(layer.output_dense.kernel.shape) == (2, 7, 17)


def test_seed_of_the_dropout() -> None:
    x = draw(1, 5, 7)
    outputs = []
    for seed in (3, 3, 4):
        layer = MultiHeadAttention(2, 3, dropout=0.5, seed=seed, kernel_initializer="ones")
        outputs.append(array(layer(x, x, training=True)))
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert np.abs(outputs[0] - outputs[2]).max() > 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_heads": 0}, "`num_heads` must be above zero. Received: num_heads=0."),
        ({"key_dim": -1}, "`key_dim` must be above zero. Received: key_dim=-1."),
        ({"value_dim": 0}, "`value_dim` must be above zero. Received: value_dim=0."),
        ({"output_shape": 0}, "`output_shape` must be above zero. Received: output_shape=0."),
        ({"output_shape": (5, 0)}, "`output_shape` must be above zero. Received: output_shape=0."),
        ({"sliding_window": 0}, "`sliding_window` must be above zero. Received: sliding_window=0."),
        ({"dropout": 1.0}, "`dropout` must be at least 0 and below 1. Received: dropout=1.0."),
        (
            {"num_key_value_heads": 4},
            "`num_key_value_heads` must divide `num_heads`. Received: num_key_value_heads=4, num_heads=6.",
        ),
        (
            {"positions": "absolute"},
            (
                "`positions` must be one of None, 'rotary', 'relative', 'relative_causal', 'relative_keys', "
                "'relative_sinusoidal'."
            ),
        ),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        built(**options)
