"""One loop of fixed sizes gives what the search of any sizes gives."""

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.decoding import BeamSearch, Constraints, GreedySearch
from keras_transformer.export.fixed_size import GreedyGraph, greedy_translator

SOURCE_IDS = np.array([[5, 6, 7, 3, 0, 0, 0], [9, 4, 8, 10, 6, 5, 3]], "int32")


def test_a_greedy_translator_keeps_what_concerns_greedy_search(translator: kt.Translator) -> None:
    constraints = Constraints(min_length=2)
    search = BeamSearch(3, length_penalty=0.5, constraints=constraints)
    other = kt.Translator(
        translator.model, translator.source_tokenizer, translator.target_tokenizer, search=search
    )
    greedy = greedy_translator(other, source_length=7)
    assert type(greedy.search) is GreedySearch
    assert (greedy.search.length_penalty, greedy.search.constraints) == (0.5, constraints)
    assert (greedy.max_source_length, greedy.max_target_length) == (7, 256)
    assert greedy_translator(other, max_length=5).max_target_length == 5


@pytest.mark.parametrize("constraints", [Constraints(), Constraints(min_length=3, max_length_ratio=0.7)])
def test_answers_are_those_of_the_translator(translator: kt.Translator, constraints: Constraints) -> None:
    greedy = greedy_translator(translator, source_length=7, max_length=5)
    greedy.search = GreedySearch(length_penalty=1.0, constraints=constraints)
    function = GreedyGraph(greedy, batch_size=2).function().get_concrete_function()
    answer, wanted = function(tf.constant(SOURCE_IDS)), greedy.generate(SOURCE_IDS)
    np.testing.assert_array_equal(answer["token_ids"], wanted.token_ids[:, 0])
    np.testing.assert_allclose(answer["score"], wanted.scores[:, 0], rtol=1e-5)


def test_every_size_is_known(translator: kt.Translator) -> None:
    function = GreedyGraph(greedy_translator(translator, 7, 5)).function().get_concrete_function()
    assert [spec.shape.as_list() for spec in function.inputs[:1]] == [[1, 7]]
    shapes = {name: output.shape.as_list() for name, output in function.structured_outputs.items()}
    assert shapes == {"token_ids": [1, 5], "score": [1]}
    graph = function.graph.as_graph_def()
    operations = [node.op for body in graph.library.function for node in body.node_def]
    operations += [node.op for node in graph.node]
    assert sum("While" in operation for operation in operations) == 1
    assert "DT_DOUBLE" not in str(graph)


def test_what_makes_no_sense_is_refused(translator: kt.Translator) -> None:
    with pytest.raises(ValueError, match=r"Received: max_source_length=1\."):
        greedy_translator(translator, 1, 5)
    with pytest.raises(ValueError, match=r"`batch_size` must be above zero. Received: batch_size=0"):
        GreedyGraph(translator, batch_size=0)
    with pytest.raises(TypeError, match=r"`batch_size` must be an integer. Received: batch_size=1.5"):
        GreedyGraph(translator, batch_size=1.5)
    with pytest.raises(ValueError, match=r"must have greedy search. Received: BeamSearch"):
        GreedyGraph(translator)
