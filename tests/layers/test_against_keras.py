"""`MultiHeadAttention` gives the numbers of `keras.layers.MultiHeadAttention` with the same weights."""

import inspect
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.layers import MultiHeadAttention

QUERY, SELF, NARROW, WIDE = (2, 5, 12), (2, 5, 12), (2, 7, 11), (2, 7, 13)
INPUTS = {
    "self": (SELF, SELF),
    "cross": (QUERY, WIDE),
    "key is not value": (QUERY, WIDE, NARROW),
}
CALLS = [*((name, causal) for name in INPUTS for causal in (False, True))]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"num_heads": 3, "key_dim": 4},
    "no bias": {"num_heads": 3, "key_dim": 4, "use_bias": False},
    "widths": {"num_heads": 2, "key_dim": 5, "value_dim": 7, "output_shape": 11},
    "dropout": {"num_heads": 3, "key_dim": 4, "dropout": 0.2},
    "window and gate": {"num_heads": 3, "key_dim": 4, "sliding_window": 2, "use_gate": True},
    "output of rank 4": {"num_heads": 3, "key_dim": 4, "output_shape": (2, 5)},
}


def twins(options: dict[str, Any], inputs: list[Any]) -> tuple[Any, Any]:
    """Ours and theirs with the same random weights."""
    ours, theirs = MultiHeadAttention(**options), keras.layers.MultiHeadAttention(**options)
    ours(*inputs)
    theirs(*inputs, return_attention_scores=True)  # its fused path on JAX knows one width only
    theirs.set_weights([0.5 * draw(*w.shape, seed=i) for i, w in enumerate(theirs.get_weights())])
    ours.set_weights(theirs.get_weights())
    return ours, theirs


def test_weights_of_a_model_move_over_and_back(close: Any) -> None:
    """One call each way, for a model that has other layers too."""

    def model(attention: Any) -> Any:
        x = inputs = keras.Input((None, 11))
        for _ in range(2):
            x = keras.layers.LayerNormalization()(x + attention(num_heads=3, key_dim=5)(x, x))
        return keras.Model(inputs, keras.layers.Dense(7)(x))

    ours, theirs, x = model(MultiHeadAttention), model(keras.layers.MultiHeadAttention), draw(2, 5, 11)
    assert [w.shape for w in ours.weights] == [w.shape for w in theirs.weights]
    ours.set_weights(theirs.get_weights())
    close(array(ours(x)), array(theirs(x)), 1e-5)
    ours.set_weights([0.3 * draw(*w.shape, seed=i) for i, w in enumerate(ours.get_weights())])
    assert np.abs(array(ours(x)) - array(theirs(x))).max() > 0.1
    theirs.set_weights(ours.get_weights())
    close(array(ours(x)), array(theirs(x)), 1e-5)


def test_every_argument_of_keras_is_one_of_ours() -> None:
    """In the same order, with the same defaults; a call's arguments too, but for the order."""
    ours, theirs = MultiHeadAttention, keras.layers.MultiHeadAttention
    expected = inspect.signature(theirs.__init__).parameters
    known = {name: value for name, value in expected.items() if value.kind is not value.VAR_KEYWORD}
    found = dict(list(inspect.signature(ours.__init__).parameters.items())[: len(known)])
    defaults = [(name, value.default) for name, value in known.items()]
    assert [(name, value.default) for name, value in found.items()] == defaults
    assert set(inspect.signature(theirs.call).parameters) <= set(inspect.signature(ours.call).parameters)


@pytest.mark.parametrize("axes", [(2,), (1, 2), (1,), -2])
def test_attention_axes(axes: Any, close: Any) -> None:
    x = draw(2, 5, 3, 7)
    keras_axes = (2,) if axes == -2 else axes
    ours = MultiHeadAttention(2, 5, attention_axes=axes)
    theirs = keras.layers.MultiHeadAttention(2, 5, attention_axes=keras_axes)
    ours(x, x)
    expected = theirs(x, x)
    ours.set_weights(theirs.get_weights())
    close(array(ours(x, x)), array(expected), 1e-5)


def attention_mask(inputs: list[Any]) -> Any:
    mask = draw(inputs[0].shape[0], inputs[0].shape[1], inputs[1].shape[1], seed=9) > 0
    mask[..., 0] = True  # Keras gives rows with nothing to attend to another meaning
    return mask


@pytest.mark.parametrize("masked", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("shapes", "causal"), CALLS)
def test_same_numbers(shapes: str, options: str, causal: bool, masked: bool, close: Any) -> None:
    inputs = [draw(*shape, seed=number) for number, shape in enumerate(INPUTS[shapes])]
    ours, theirs = twins(OPTIONS[options], inputs)
    call = {"attention_mask": attention_mask(inputs) if masked else None, "use_causal_mask": causal}
    output, scores = ours(*inputs, **call, return_attention_scores=True)
    expected_output, expected_scores = theirs(*inputs, **call, return_attention_scores=True)
    close(array(output), array(expected_output), 1e-5)
    close(array(scores), array(expected_scores), 1e-5)
    close(array(ours(*inputs, **call)), array(expected_output), 1e-5)


def test_same_numbers_in_training(close: Any) -> None:
    inputs = [draw(2, 5, 12), draw(2, 7, 13)]
    ours, theirs = twins(OPTIONS["plain"], inputs)
    mask = attention_mask(inputs)
    output = ours(*inputs, attention_mask=mask, training=True)
    expected = theirs(*inputs, attention_mask=mask, training=True)
    close(array(output), array(expected), 1e-5)


def test_same_numbers_from_an_implicit_mask(close: Any) -> None:
    x = keras.layers.Embedding(11, 12, mask_zero=True)(np.array([[3, 5, 0], [2, 2, 2]]))
    ours, theirs = twins(OPTIONS["plain"], [x, x])
    # Keras lets padded queries attend to nothing, which it then computes in its own way.
    close(array(ours(x, x))[:, :2], array(theirs(x, x))[:, :2], 1e-5)


def with_padding(attention: Any, with_scores: bool) -> Any:
    """Make a model in which a Keras mask reaches the attention, and whose pooling reads the padding."""
    token_ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(11, 7, mask_zero=True, name="embedding")(token_ids)
    outputs = attention(x, x, use_causal_mask=True, return_attention_scores=with_scores)
    x, *scores = outputs if with_scores else [outputs]
    return keras.Model(token_ids, [keras.layers.Dense(3)(keras.ops.mean(x, axis=1)), x, *scores])


@pytest.mark.parametrize("with_scores", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_queries_of_padding_gather_what_they_do_in_keras(
    dropout: float, with_scores: bool, close: Any
) -> None:
    ours = with_padding(MultiHeadAttention(2, 5, dropout=dropout), with_scores)
    theirs = with_padding(keras.layers.MultiHeadAttention(2, 5, dropout=dropout), with_scores)
    theirs.set_weights(ours.get_weights())
    token_ids = np.array([[3, 1, 4, 0, 0], [5, 9, 2, 6, 0]])
    for found, expected in zip(ours(token_ids), theirs(token_ids), strict=True):
        close(array(found), array(expected), 1e-5)


class Doubled(MultiHeadAttention):
    """Attention as a user writes it against the documentation of Keras."""

    def _compute_attention(
        self,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any = None,
        training: Any = None,
        return_attention_scores: bool = False,
    ) -> Any:
        heads, scores = super()._compute_attention(
            query, key, value, attention_mask, training, return_attention_scores=True
        )
        return 2 * heads, scores


def test_a_subclass_may_replace_the_attention(close: Any) -> None:
    x = draw(2, 5, 7)
    doubled, plain = Doubled(2, 5, use_bias=False), MultiHeadAttention(2, 5, use_bias=False)
    expected = plain(x, x)
    doubled.build(x.shape, x.shape)
    doubled.set_weights(plain.get_weights())
    close(array(doubled(x, x)), 2 * array(expected), 1e-5)


def test_flash_attention_is_refused_where_keras_refuses_it() -> None:
    x = draw(2, 5, 8)
    for layer in (MultiHeadAttention, keras.layers.MultiHeadAttention):
        with pytest.raises(ValueError, match=r"(?i)dropout"):
            layer(2, 4, flash_attention=True, dropout=0.1)
        with pytest.raises(ValueError, match=r"(?i)scores"):
            layer(2, 4, flash_attention=True)(x, x, return_attention_scores=True)
        if keras.backend.backend() == "tensorflow":
            with pytest.raises(ValueError, match=r"(?i)flash.attention"):
                layer(2, 4, flash_attention=True)(x, x)


@pytest.mark.parametrize("layer_class", [MultiHeadAttention, keras.layers.MultiHeadAttention])
def test_what_reads_the_same_tensor_afterwards_sees_its_mask(layer_class: Any) -> None:
    """The fifth difference on the page of single layers."""
    keras.utils.set_random_seed(0)
    source, target = keras.Input((None,), dtype="int32"), keras.Input((3,), dtype="int32")
    embedding = keras.layers.Embedding(9, 8, mask_zero=True)
    memory, x = embedding(source), embedding(target)
    for _ in range(2):
        x = x + layer_class(2, 4)(x, memory)
    model = keras.Model([source, target], x)
    few, many = np.array([[4, 5, 6]]), np.array([[4, 5, 6, 0, 0, 0, 0]])
    outputs = [array(model([ids, np.array([[2, 3, 4]])])) for ids in (few, many)]
    changes = np.abs(outputs[0] - outputs[1]).max()
    assert changes < 1e-5 if layer_class is MultiHeadAttention else changes > 1e-3
