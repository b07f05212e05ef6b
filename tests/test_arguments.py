import math
import re
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer._arguments import (
    as_position,
    check_choice,
    check_divides,
    check_number,
    check_positive,
    check_rates,
    check_token_ids,
    check_vectors,
    check_width,
    known_sizes,
    known_values,
    known_width,
)


def test_positive_sizes_pass() -> None:
    check_positive(num_heads=1, key_dim=np.int64(13))


@pytest.mark.parametrize("size", [0, -3])
def test_sizes_not_above_zero(size: int) -> None:
    with pytest.raises(ValueError, match=rf"^`key_dim` must be above zero\. Received: key_dim={size}\.$"):
        check_positive(num_heads=2, key_dim=size)


@pytest.mark.parametrize("size", [2.0, "8", None, True])
def test_sizes_that_are_no_integers(size: Any) -> None:
    message = f"`key_dim` must be an integer. Received: key_dim={size!r}."
    with pytest.raises(TypeError, match=re.escape(message)):
        check_positive(key_dim=size)


@pytest.mark.parametrize(
    ("limits", "value", "wanted"),
    [
        ({}, -0.5, "at least 0 and finite"),
        ({}, math.inf, "at least 0 and finite"),
        ({}, math.nan, "at least 0 and finite"),
        ({"above": 0}, 0.0, "above zero and finite"),
        ({"above": 0.5}, 0.5, "above 0.5 and finite"),
        ({"at_least": 2, "whole": True}, 1, "at least 2"),
        ({"below": 2**31, "whole": True}, 2**31, "at least 0 and below 2147483648"),
    ],
)
def test_numbers_out_of_range(limits: Any, value: float, wanted: str) -> None:
    message = f"`weight` must be {wanted}. Received: weight={value}."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_number(**limits, weight=value)


@pytest.mark.parametrize(("whole", "kind"), [(True, "an integer"), (False, "a number")])
@pytest.mark.parametrize("value", ["1", None, True])
def test_what_is_no_number(whole: bool, kind: str, value: Any) -> None:
    message = f"`weight` must be {kind}. Received: weight={value!r}."
    with pytest.raises(TypeError, match=re.escape(message)):
        check_number(whole=whole, weight=value)


def test_numbers_in_range() -> None:
    check_number(weight=0, other=np.float32(0.5))
    check_number(at_least=-1, below=2, whole=True, weight=-1, other=np.int64(1))


def test_rates_pass() -> None:
    check_rates(dropout=0, attention_dropout=0.0, intermediate_dropout=0.999)


@pytest.mark.parametrize("rate", [-0.1, 1, 1.0, 1.5, float("nan")])
def test_rates_out_of_range(rate: float) -> None:
    message = f"`dropout` must be at least 0 and below 1. Received: dropout={rate}."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_rates(dropout=rate)


@pytest.mark.parametrize("rate", ["0.1", None])
def test_rates_that_are_no_numbers(rate: Any) -> None:
    message = f"`dropout` must be a number. Received: dropout={rate!r}."
    with pytest.raises(TypeError, match=re.escape(message)):
        check_rates(dropout=rate)


@pytest.mark.parametrize(("num_heads", "hidden_dim"), [(1, 7), (7, 7), (8, 512)])
def test_heads_that_divide(num_heads: int, hidden_dim: int) -> None:
    check_divides(num_heads=num_heads, hidden_dim=hidden_dim)


@pytest.mark.parametrize(("num_heads", "hidden_dim"), [(3, 8), (7, 512), (16, 8)])
def test_heads_that_do_not_divide(num_heads: int, hidden_dim: int) -> None:
    message = (
        f"`num_heads` must divide `hidden_dim`. Received: num_heads={num_heads}, hidden_dim={hidden_dim}."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        check_divides(num_heads=num_heads, hidden_dim=hidden_dim)


def test_known_width() -> None:
    assert known_width(query=(None, None, 13)) == 13


def test_unknown_width() -> None:
    message = "The last axis of `query` must have a known size. Received: shape=(2, 3, None)."
    with pytest.raises(ValueError, match=re.escape(message)):
        known_width(query=(2, 3, None))


def test_choices() -> None:
    check_choice((None, "a"), option=None)
    with pytest.raises(
        ValueError, match=re.escape("`option` must be one of None, 'a'. Received: option='b'.")
    ):
        check_choice((None, "a"), option="b")


def test_groups() -> None:
    check_divides(num_key_value_heads=None, num_heads=5)
    check_divides(num_key_value_heads=2, num_heads=6)
    message = "`num_key_value_heads` must divide `num_heads`. Received: num_key_value_heads=4, num_heads=6."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_divides(num_key_value_heads=4, num_heads=6)


def test_sizes_that_are_symbols_are_not_known() -> None:
    assert known_sizes((2, None, object())) == (2, None, None)


def test_a_width_that_differs_is_named_where_it_is_known() -> None:
    check_width(8, inputs=(2, 8), other=(None, None, 8), rows=(1, None))
    message = (
        "The last axis of `other` must have the size of the layer's weights, 8. Received: shape=(None, 9)."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        check_width(8, inputs=(2, 8), other=(None, 9))


@pytest.mark.parametrize("shape", [(6,), (None, 6), (2, 3, 5, 8)])
def test_other_ranks_are_no_vectors(shape: Any) -> None:
    message = f"through `keras.layers.TimeDistributed`. Received: shape={shape}."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_vectors(shape)
    check_vectors((None, None, 8))


def test_values_are_known_unless_a_graph_is_traced() -> None:
    tensor = keras.ops.convert_to_tensor([1, 2])
    assert known_values(tensor).tolist() == [1, 2]
    assert known_values(keras.KerasTensor((2,))) is None


def test_values_are_not_known_inside_a_compiled_function() -> None:
    seen = []

    def function(tensor: Any) -> Any:
        seen.append(known_values(tensor))
        return tensor

    if keras.backend.backend() == "tensorflow":
        pytest.importorskip("tensorflow").function(function)(keras.ops.ones(2))
    elif keras.backend.backend() == "jax":
        pytest.importorskip("jax").jit(function)(keras.ops.ones(2))
    else:
        pytest.skip("torch traces nothing here")
    assert seen == [None]


def test_token_ids() -> None:
    check_token_ids(np.array([[0, 4]]), 5)
    message = "`token_ids` must be at least 0 and below vocabulary_size=5. Received: 5 at (0, 1)."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_token_ids(np.array([[0, 5]]), 5)
    with pytest.raises(TypeError, match=re.escape("`token_ids` must be integers. Received: dtype=float64.")):
        check_token_ids(np.array([[0.0]]), 5)


def test_positions_of_any_integer_type() -> None:
    assert as_position(np.int64(3)) == 3
    assert type(as_position(np.int64(3))) is int
    assert as_position(keras.ops.ones((), "int16")) == 1
    symbolic = as_position(keras.KerasTensor((), "int16"))
    assert symbolic.dtype == "int32"
    with pytest.raises(ValueError, match=r"`start` must be at least 0\. Received: start=-1\."):
        as_position(-1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: kt.text.CharacterTokenizer(["a"], lowercase=1),
            "`lowercase` must be True or False. Received: lowercase=1.",
        ),
        (
            lambda: kt.text.SubwordTokenizer.train(["a b"], "60"),
            "must be an integer. Received: vocabulary_size='60'.",
        ),
        (
            lambda: kt.text.WhitespaceTokenizer.train(["a"], max_vocabulary_size=5.5),
            "Received: max_vocabulary_size=5.5.",
        ),
        (
            lambda: kt.decoding.GreedySearch(constraints="x"),
            "must be a Constraints. Received: constraints='x'.",
        ),
        (lambda: kt.decoding.BeamSearch(special_ids=(0, 1, 2, 3)), "must be a SpecialIds or None. Received"),
        (lambda: kt.training.MaskedAccuracy(1.5), "`pad_id` must be an integer. Received: pad_id=1.5."),
        (lambda: kt.training.MaskedCrossentropy(normalize="no"), "True or False. Received: normalize='no'."),
        (lambda: kt.layers.MultiHeadAttention(2, 4, use_bias=1), "True or False. Received: use_bias=1."),
        (
            lambda: kt.layers.OutputProjection(9, embedding=kt.layers.TokenEmbedding),
            "Received: the class TokenEmbedding.",
        ),
        (lambda: kt.Run("run.toml"), "`Run.from_toml(path)` reads a file. Received: config='run.toml'."),
        (lambda: kt.Run.open(3), "A path must be a string or a `pathlib.Path`. Received: 3."),
        (
            lambda: kt.data.split_pairs([("a",)], validation_fraction=0.5),
            "two strings. Received: pairs[0]=('a',).",
        ),
    ],
)
def test_a_wrong_kind_is_refused_where_it_is_given(call: Any, words: str) -> None:
    with pytest.raises(TypeError, match=re.escape(words)):
        call()


@pytest.mark.parametrize("search", ["beam", kt.decoding.BeamSearch, 4])
def test_a_search_is_an_object(search: Any) -> None:
    tokenizer = kt.text.CharacterTokenizer(["a"])
    size = tokenizer.vocabulary_size
    model = kt.Transformer(size, size, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8)
    received = "the class BeamSearch" if isinstance(search, type) else f"search={search!r}"
    with pytest.raises(TypeError, match=rf"`search` must be a Search\. Received: {received}\."):
        kt.Translator(model, tokenizer, tokenizer, search=search)


@pytest.mark.parametrize(
    "layer",
    [
        kt.layers.EncoderLayer(2, 8),
        kt.layers.DecoderLayer(2, 8),
        kt.layers.MultiHeadAttention(2, 4),
        kt.layers.FeedForward(8),
        kt.layers.TokenEmbedding(8, 8),
        kt.layers.PositionEncoding(),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_shape_is_no_integer_as_in_keras(layer: keras.layers.Layer) -> None:
    theirs = keras.layers.MultiHeadAttention(2, 4)
    with pytest.raises(TypeError) as expected:
        theirs.compute_output_shape(3, 3)
    several = isinstance(layer, kt.layers.MultiHeadAttention)
    with pytest.raises(expected.type):
        layer.compute_output_shape(*[3, 3] if several else [3])
