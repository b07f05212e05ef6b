"""The functions of an export, asked as a server asks them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

Signatures = dict[str, Callable[..., dict[str, tf.Tensor]]]
TEXT, BEST = {"text": ("string", 1)}, {"output": ("string", 1), "score": ("float32", 1)}
DOCUMENTED = {
    "serving_default": (TEXT, BEST),
    "n_best": (TEXT, {"output": ("string", 2), "score": ("float32", 2)}),
    "align": (
        TEXT,
        {
            **BEST,
            "source_tokens": ("string", 2),
            "output_tokens": ("string", 2),
            "attention": ("float32", 3),
        },
    ),
    "score": ({**TEXT, "output": ("string", 1)}, {"score": ("float32", 1), "num_tokens": ("int32", 1)}),
}


@pytest.fixture(scope="module")
def signatures(exported: Path) -> Signatures:
    return tf.saved_model.load(str(exported)).signatures


def test_names_types_and_ranks_are_the_documented_ones(signatures: Signatures) -> None:
    assert set(signatures) == set(DOCUMENTED)
    for name, sides in DOCUMENTED.items():
        serve = signatures[name]
        received = serve.structured_input_signature[1], serve.structured_outputs
        for documented, specs in zip(sides, received, strict=True):
            assert {key: (spec.dtype.name, spec.shape.rank) for key, spec in specs.items()} == documented
            assert {spec.shape[0] for spec in specs.values()} == {None}


def test_empty_texts_have_empty_outputs(signatures: Signatures) -> None:
    answers = signatures["align"](text=tf.constant(["", "a dog", ""]))
    for row in (0, 2):
        assert answers["output"][row] == b""
        assert answers["score"][row] == 0.0
        assert not answers["attention"][row].numpy().any()
        assert set(answers["source_tokens"][row].numpy()) == {b""}
        assert set(answers["output_tokens"][row].numpy()) == {b""}
    assert answers["score"][1] < 0
    assert answers["source_tokens"][1].numpy().tolist() == [b"a", b" ", b"d", b"o", b"g", b"[END]"]


def test_hypotheses_begin_with_the_best(signatures: Signatures) -> None:
    text = tf.constant(["a dog", "", "the cat"])
    best, hypotheses = signatures["serving_default"](text=text), signatures["n_best"](text=text)
    assert hypotheses["output"].shape == (3, 2)
    np.testing.assert_array_equal(hypotheses["output"][:, 0], best["output"])
    np.testing.assert_allclose(hypotheses["score"][:, 0], best["score"], atol=1e-5)
    assert hypotheses["output"][1].numpy().tolist() == [b"", b""]
    np.testing.assert_array_equal(hypotheses["score"][1], np.float32([0.0, -1e30]))


def test_no_rows_have_no_outputs(signatures: Signatures) -> None:
    for name, (inputs, outputs) in DOCUMENTED.items():
        answers = signatures[name](**dict.fromkeys(inputs, tf.constant([], tf.string)))
        assert {key: len(values) for key, values in answers.items()} == dict.fromkeys(outputs, 0)


def test_two_empty_texts_are_not_scored(signatures: Signatures) -> None:
    answers = signatures["score"](text=tf.constant(["", "", "a"]), output=tf.constant(["", "a", ""]))
    assert answers["num_tokens"].numpy().tolist() == [0, 2, 1]
    assert answers["score"][0] == 0.0
    assert max(answers["score"][1:]) < 0


def test_pairs_need_both_sides(signatures: Signatures) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="`text` and `output` must have the same number"):
        signatures["score"](text=tf.constant(["a", "b"]), output=tf.constant(["a"]))


def test_invalid_utf8_gets_an_answer_and_changes_no_neighbor(signatures: Signatures) -> None:
    serve, rows = signatures["serving_default"], [b"a dog", b"\xff\xfe\xc3", b"", b"the rat"]
    outputs = serve(text=tf.constant(rows))["output"].numpy().tolist()
    assert outputs == [serve(text=tf.constant([row]))["output"].numpy()[0] for row in rows]
    assert outputs[2] == b""
