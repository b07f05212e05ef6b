"""Searches as descriptions, what all of them share, and the loop, whose forms give the same outputs."""

import dataclasses
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from helpers import BeamSearch, GreedySearch, SampleSearch
from keras_transformer.decoding import Constraints, SearchResult, generate
from keras_transformer.types import SpecialIds

SEARCHES = [
    GreedySearch(),
    BeamSearch(3),
    BeamSearch(2, early_stopping="never", length_penalty=0.5, num_hypotheses=1),
    BeamSearch(
        3,
        length_normalization="length",
        early_stopping=False,
        cut_off_competes=True,
        constraints=Constraints(
            first_token_ids=(5, 7),
            force_end=True,
            banned_first_token_ids=(4,),
            banned_sequences=((4, 6), (6, 5, 4)),
        ),
    ),
    BeamSearch(3),
    SampleSearch(num_samples=2, seed=5),
    BeamSearch(2, constraints=Constraints(no_repeat_ngram_size=2, max_length_ratio=2.0)),
]
ROOM = 32  # initial cache length
LONG = 2 * ROOM + 7

tensorflow_only = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="a graph of unknown sizes"
)


def answers(result: SearchResult) -> Any:
    return [ops.convert_to_numpy(part) for part in result]


def plain_greedy(model: Any, sources: Any, max_length: int) -> Any:
    """Greedy search with neither cache nor loop: the whole decoder for each token."""
    token_ids = np.full((len(sources), 1), 2)
    for _ in range(max_length):
        logits = ops.convert_to_numpy(model({"encoder_token_ids": sources, "decoder_token_ids": token_ids}))
        best = np.argmax(np.where(np.arange(logits.shape[-1]) < 3, -np.inf, logits[:, -1]), axis=-1)
        best = np.where((token_ids == 3).any(axis=1), 0, best)
        token_ids = np.concatenate([token_ids, best[:, None]], axis=1)
    return token_ids[:, 1:]


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES[1:])
def test_integers_are_the_same_with_double_precision(transformer: Any, source_ids: Any, search: Any) -> None:
    # Then Keras makes int64 of numbers without a dtype.
    sources = np.tile(source_ids, (4, 1))
    expected = answers(generate(transformer, sources, search, ROOM + 3))
    keras.config.set_floatx("float64")
    try:
        found = answers(generate(transformer, sources, search, ROOM + 3))
    finally:
        keras.config.set_floatx("float32")
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], atol=1e-5)


@pytest.mark.slow
def test_a_long_answer_is_that_of_the_whole_decoder(transformer: Any, source_ids: Any) -> None:
    token_ids, _ = answers(generate(transformer, source_ids[:2], GreedySearch(), ROOM + 3))
    expected = plain_greedy(transformer, source_ids[:2], ROOM + 3)
    np.testing.assert_array_equal(token_ids[:, 0], expected)
    assert (expected[:, ROOM:] > 0).any(), "no answer outgrows the initial cache"


@tensorflow_only
@pytest.mark.parametrize(
    "search",
    [pytest.param(each, marks=[] if n == 5 else pytest.mark.slow) for n, each in enumerate(SEARCHES)],
)
def test_changing_sizes_give_the_same(transformer: Any, source_ids: Any, search: Any) -> None:
    """Sources leave the batch when they are done, and the caches grow in place."""
    import tensorflow as tf

    expected = answers(generate(transformer, source_ids, search, ROOM + 3))
    graph = tf.function(
        lambda ids: generate(transformer, ids, search, ROOM + 3),
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
        autograph=False,
    )
    found = answers(graph(source_ids))
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], atol=1e-4)


@tensorflow_only
@pytest.mark.parametrize(
    ("normalization", "early_stopping"),
    [
        ("gnmt", True),
        ("length", "never"),
        pytest.param("length", False, marks=pytest.mark.slow),
        pytest.param("gnmt", False, marks=pytest.mark.slow),
        pytest.param("gnmt", "never", marks=pytest.mark.slow),
        pytest.param("length", True, marks=pytest.mark.slow),
    ],
)
def test_each_source_has_its_own_length_penalty(
    recurrent_model: Any, normalization: Any, early_stopping: Any
) -> None:
    import tensorflow as tf

    model, sources = recurrent_model(6, 8, 3), np.arange(6, dtype="int32")[:, None]
    penalties, lengths = np.array([0, 0.5, 1, 1.5, 2, 2], "float32"), np.array([9, 4, 9, 5, 9, 3], "int32")
    search = BeamSearch(
        3, length_normalization=normalization, early_stopping=early_stopping, cut_off_competes=True
    )
    graph = tf.function(
        lambda ids, *limits: generate(
            model, ids, search, 9, max_lengths=limits[0], length_penalties=limits[1]
        ),
        input_signature=[
            tf.TensorSpec([None, None], tf.int32),
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([None], tf.float32),
        ],
        autograph=False,
    )
    token_ids, scores = answers(graph(sources, lengths, penalties))
    for row, (penalty, length) in enumerate(zip(penalties.tolist(), lengths.tolist(), strict=True)):
        alone = dataclasses.replace(search, length_penalty=penalty)
        expected = answers(generate(model, ops.convert_to_tensor(sources[row : row + 1]), alone, length))
        np.testing.assert_array_equal(token_ids[row, :, :length], expected[0][0])
        assert not token_ids[row, :, length:].any()
        np.testing.assert_allclose(scores[row], expected[1][0], rtol=1e-4)


@tensorflow_only
@pytest.mark.parametrize("search_class", [GreedySearch, BeamSearch, SampleSearch])
def test_room_is_padding_whatever_its_id(table_model: Any, search_class: Any) -> None:
    import tensorflow as tf

    model = table_model({5: {3: 1.0}, 3: {1: 1.0}}, 6)
    search = search_class(special_ids=SpecialIds(pad=4, unknown=0, start=5, end=1))
    graph = tf.function(
        lambda ids: generate(model, ids, search, LONG),
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
        autograph=False,
    )
    token_ids, _ = answers(graph(np.zeros((2, 1), "int32")))
    assert token_ids[:, 0].tolist() == [[3, 1] + [4] * (LONG - 2)] * 2


@tensorflow_only
def test_no_source_at_all(transformer: Any) -> None:
    import tensorflow as tf

    graph = tf.function(
        lambda ids: generate(transformer, ids, BeamSearch(2), 5),
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
        autograph=False,
    )
    token_ids, scores = answers(graph(tf.zeros((0, 4), tf.int32)))
    assert token_ids.shape == (0, 2, 5)
    assert scores.shape == (0, 2)


@tensorflow_only
@pytest.mark.slow
@pytest.mark.parametrize(("search", "length"), [*zip(SEARCHES[:4], (LONG, *[ROOM + 3] * 3), strict=True)])
def test_xla_gives_the_same(transformer: Any, source_ids: Any, search: Any, length: int) -> None:
    import tensorflow as tf

    compiled = tf.function(
        lambda ids: generate(transformer, ids, search, length), jit_compile=True, autograph=False
    )
    found = answers(compiled(source_ids))
    expected = answers(generate(transformer, source_ids, search, length))
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], atol=1e-3)


@pytest.mark.parametrize(
    ("search", "compiled"),
    [
        (SampleSearch(seed=5), False),
        (BeamSearch(3, num_hypotheses=1), False),
        pytest.param(BeamSearch(3, num_hypotheses=1), True, marks=[tensorflow_only, pytest.mark.slow]),
    ],
)
def test_the_last_of_many_sources_go_on_by_themselves(
    recurrent_model: Any, search: Any, compiled: bool
) -> None:
    model, sources = recurrent_model(16, 8, 3), np.arange(16, dtype="int32")[:, None]

    def together(ids: Any) -> SearchResult:
        return generate(model, ids, search, ROOM + 3)

    if compiled:
        import tensorflow as tf

        signature = [tf.TensorSpec([None, None], tf.int32)]
        together = tf.function(together, input_signature=signature, autograph=False, jit_compile=True)
    token_ids, scores = answers(together(sources))
    lengths = np.sort((token_ids[:, 0] > 0).sum(-1))
    assert lengths[12] < lengths[-1], "no four sources are left"
    for first in range(0, 16, 4):  # too few for a loop of their own
        rows = np.arange(first, first + 4)
        apart = answers(generate(model, sources[rows], search, ROOM + 3, source_numbers=rows))
        np.testing.assert_array_equal(token_ids[rows], apart[0])
        np.testing.assert_allclose(scores[rows], apart[1], atol=1e-4)


@tensorflow_only
@pytest.mark.slow
def test_xla_needs_no_batch_size_while_it_is_traced(transformer: Any, source_ids: Any) -> None:
    """A graph is traced for any sizes, as for an export, and compiled for each it meets."""
    import tensorflow as tf

    graph = tf.function(
        lambda ids: generate(transformer, ids, BeamSearch(2), 5),
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
        autograph=False,
        jit_compile=True,
    )
    for sources in (source_ids, source_ids[:1]):
        found, expected = answers(graph(sources)), answers(generate(transformer, sources, BeamSearch(2), 5))
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_allclose(found[1], expected[1], atol=1e-3)


@tensorflow_only
@pytest.mark.slow
def test_one_loop_of_fixed_sizes(transformer: Any, source_ids: Any) -> None:
    import tensorflow as tf

    @tf.function(autograph=False)
    def graph(ids: Any) -> SearchResult:
        return generate(transformer, ids, GreedySearch(), LONG, initial_cache_length=LONG)

    function = graph.get_concrete_function(tf.TensorSpec(source_ids.shape, tf.int32))
    nodes = function.graph.as_graph_def()
    operations = [
        node.op for body in (nodes.node, *(f.node_def for f in nodes.library.function)) for node in body
    ]
    assert sum("While" in operation for operation in operations) == 1
    expected = answers(generate(transformer, source_ids, GreedySearch(), LONG))
    np.testing.assert_array_equal(ops.convert_to_numpy(graph(source_ids).token_ids), expected[0])


SOURCES = np.arange(1, 5, dtype="int32")[:, None]
CLASSES = [GreedySearch, BeamSearch, SampleSearch]


@pytest.mark.parametrize("search_class", CLASSES)
def test_a_search_is_a_value(search_class: Any) -> None:
    search = search_class(constraints=Constraints(min_length=2))
    assert search == search_class(constraints=Constraints(min_length=2))
    assert hash(search) == hash(search_class(constraints=Constraints(min_length=2)))
    assert search != search_class()
    assert dataclasses.replace(search, constraints=Constraints()) == search_class()
    with pytest.raises(dataclasses.FrozenInstanceError):
        search.length_penalty = 2.0


def test_searches_of_different_kinds_differ() -> None:
    assert len({GreedySearch(), BeamSearch(1), SampleSearch()}) == 3
    assert GreedySearch() != SampleSearch()


@pytest.mark.parametrize(
    ("search", "beam_size", "num_outputs"),
    [
        (GreedySearch(), 1, 1),
        (BeamSearch(3), 3, 3),
        (BeamSearch(4, num_hypotheses=2), 4, 2),
        (dataclasses.replace(BeamSearch(4), beam_size=6), 6, 6),
        (SampleSearch(num_samples=5), 5, 5),
    ],
)
def test_hypotheses_that_are_kept_and_returned(search: Any, beam_size: int, num_outputs: int) -> None:
    assert (search.beam_size, search.num_outputs) == (beam_size, num_outputs)


@pytest.mark.parametrize("value", [-0.5, float("nan"), float("inf")])
@pytest.mark.parametrize("search_class", CLASSES)
def test_a_length_penalty_must_be_finite_and_not_negative(search_class: Any, value: float) -> None:
    with pytest.raises(ValueError, match=rf"at least 0 and finite\. Received: length_penalty={value}\."):
        search_class(length_penalty=value)


@pytest.mark.parametrize("search_class", CLASSES)
def test_constraints_and_prefixes_hold(search_class: Any, recurrent_model: Any) -> None:
    rules = Constraints(min_length=3, max_length_ratio=5.0, banned_token_ids=(4,))
    search = search_class(constraints=rules)
    prefix_ids = ops.convert_to_tensor([[5]] * 4, "int32")
    result = generate(recurrent_model(5, 7, 3), SOURCES, search, 9, prefix_ids=prefix_ids)
    best = ops.convert_to_numpy(result.token_ids)[:, 0]
    assert (best[:, 0] == 5).all()
    assert ((best > 0).sum(1) >= 3).all()
    assert ((best > 0).sum(1) <= 5).all()
    assert (best != 4).all()
