"""The graph inside an export."""

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.export import SIGNATURES, ServingModule


@pytest.fixture(scope="module")
def module(translator: kt.Translator) -> ServingModule:
    return ServingModule(translator, [])


def test_empty_rows_are_empty_answers(module: ServingModule) -> None:
    answers = module.align(tf.constant(["", "a dog", ""]))
    for row in (0, 2):
        assert answers["output"][row] == b""
        assert answers["score"][row] == 0.0
        assert not answers["attention"][row].numpy().any()
        assert set(answers["source_tokens"][row].numpy()) == {b""}
        assert set(answers["output_tokens"][row].numpy()) == {b""}
    assert answers["score"][1] < 0
    assert answers["source_tokens"][1].numpy().tolist() == [b"a", b" ", b"d", b"o", b"g", b"[END]"]


def test_hypotheses_begin_with_the_answer(module: ServingModule) -> None:
    text = tf.constant(["a dog", "", "the cat"])
    best, all_of_them = module.serving_default(text), module.n_best(text)
    assert all_of_them["output"].shape == (3, 2)
    np.testing.assert_array_equal(all_of_them["output"][:, 0], best["output"])
    np.testing.assert_allclose(all_of_them["score"][:, 0], best["score"], atol=1e-5)
    assert all_of_them["output"][1].numpy().tolist() == [b"", b""]
    np.testing.assert_array_equal(all_of_them["score"][1], np.float32([0.0, -1e30]))


def test_no_rows_are_no_answers(module: ServingModule) -> None:
    nothing = tf.constant([], tf.string)
    for name, signature in SIGNATURES.items():
        answers = getattr(module, name)(*[nothing] * len(signature.inputs))
        assert {output: len(values) for output, values in answers.items()} == dict.fromkeys(
            signature.outputs, 0
        )


def test_two_empty_texts_are_not_scored(module: ServingModule) -> None:
    answers = module.score(tf.constant(["", "", "a"]), tf.constant(["", "a", ""]))
    assert answers["num_tokens"].numpy().tolist() == [0, 2, 1]
    assert answers["score"][0] == 0.0
    assert max(answers["score"][1:]) < 0


def test_pairs_need_both_sides(module: ServingModule) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="`text` and `output` must have the same number"):
        module.score(tf.constant(["a", "b"]), tf.constant(["a"]))


def test_the_module_holds_every_weight_once(module: ServingModule, translator: kt.Translator) -> None:
    assert len(module.variables) == len(translator.model.weights)


def test_an_unknown_optimization_is_refused(translator: kt.Translator) -> None:
    with pytest.raises(ValueError, match=r"Received: optimize='int8'\."):
        ServingModule(translator, [], "int8")
