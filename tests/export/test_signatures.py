"""The functions of an export, asked as a server asks them."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

import keras_transformer as kt

Signatures = dict[str, Callable[..., dict[str, tf.Tensor]]]
TEXT, BEST = {"text": ("string", 1)}, {"output": ("string", 1), "score": ("float32", 1)}
IS_CUT = {"is_cut": ("bool", 1)}
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
    "score": (
        {**TEXT, "output": ("string", 1)},
        {
            "score": ("float32", 1),
            "num_tokens": ("int32", 1),
            "tokens": ("string", 2),
            "token_scores": ("float32", 2),
            "alternatives": ("string", 3),
            "alternative_scores": ("float32", 3),
        },
    ),
    "search": (
        {
            **TEXT,
            "max_length": ("int32", 1),
            "length_penalty": ("float32", 1),
            "num_hypotheses": ("int32", 1),
        },
        {"output": ("string", 2), "score": ("float32", 2)},
    ),
}


@pytest.fixture(scope="module")
def signatures(exported: Path) -> Signatures:
    return tf.saved_model.load(str(exported)).signatures


def test_names_types_and_ranks_are_the_documented_ones(signatures: Signatures) -> None:
    assert set(signatures) == set(DOCUMENTED)
    for name, (inputs, outputs) in DOCUMENTED.items():
        serve = signatures[name]
        received = serve.structured_input_signature[1], serve.structured_outputs
        for documented, specs in zip((inputs, {**outputs, **IS_CUT}), received, strict=True):
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
        answers = signatures[name](**{key: tf.constant([], dtype) for key, (dtype, _) in inputs.items()})
        assert {key: len(values) for key, values in answers.items()} == dict.fromkeys(
            {**outputs, **IS_CUT}, 0
        )


def test_two_empty_texts_are_not_scored(signatures: Signatures) -> None:
    answers = signatures["score"](text=tf.constant(["", "", "a"]), output=tf.constant(["", "a", ""]))
    assert answers["num_tokens"].numpy().tolist() == [0, 2, 1]
    assert answers["score"][0] == 0.0
    assert max(answers["score"][1:]) < 0


def test_pairs_need_both_sides(signatures: Signatures) -> None:
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="The sources and `output` must have the same number"
    ):
        signatures["score"](text=tf.constant(["a", "b"]), output=tf.constant(["a"]))


def search(signatures: Signatures, text: list[str], *options: list[float]) -> dict[str, list[Any]]:
    """Ask `search` with `max_length`, `length_penalty` and `num_hypotheses`."""
    names = list(DOCUMENTED["search"][0].items())[1:]
    values = {
        name: tf.constant(value, dtype) for (name, (dtype, _)), value in zip(names, options, strict=True)
    }
    return {name: array.numpy().tolist() for name, array in signatures["search"](text=text, **values).items()}


@pytest.mark.slow
def test_a_text_keeps_the_options_of_its_request(signatures: Signatures, translator: kt.Translator) -> None:
    rows = [("a dog", 3, 0.0, 1), ("", 5, 1.0, 2), ("a rat", 5, 2.5, 2)]
    answers = search(signatures, *map(list, zip(*rows, strict=True)))
    for (text, max_length, length_penalty, num), *received in zip(
        rows, answers["output"], answers["score"], strict=True
    ):
        chosen = dataclasses.replace(translator.search, length_penalty=length_penalty)
        sides = translator.source_tokenizer, translator.target_tokenizer
        alone = kt.Translator(translator.model, *sides, search=chosen, max_target_length=max_length)
        [wanted] = alone.n_best([text], num)
        assert received[0] == [answer.text.encode() for answer in wanted] + [b""] * (2 - len(wanted))
        scores = [answer.score for answer in wanted] + [-1e30] * (2 - len(wanted))
        np.testing.assert_allclose(received[1], scores, rtol=1e-5)


def test_an_option_of_minus_one_is_that_of_the_export(signatures: Signatures) -> None:
    text = ["a dog", "", "the cat"]
    answers = search(signatures, text, [-1] * 3, [-1.0] * 3, [-1] * 3)
    for name, values in signatures["n_best"](text=tf.constant(text)).items():
        same = np.testing.assert_allclose if name == "score" else np.testing.assert_array_equal
        same(np.array(answers[name]), values.numpy())


def test_no_option_has_a_default_that_a_server_would_fill_in(exported: Path) -> None:
    # One row, beside which it refuses two texts when it batches.
    [graph] = SavedModel.FromString((exported / "saved_model.pb").read_bytes()).meta_graphs
    assert {name: dict(each.defaults) for name, each in graph.signature_def.items() if each.defaults} == {}


def test_options_are_brought_into_their_range(signatures: Signatures) -> None:
    text = ["a dog", "the cat"]
    low = search(signatures, text, [-5], [float("nan")], [0])
    assert low == search(signatures, text, [1], [0.0], [1])
    # Always two columns: a server joins the answers to parts of a request without a look at their widths.
    assert [(len(first), second) for first, second in low["output"]] == [(1, b""), (1, b"")]
    assert search(signatures, text, [99], [9.0], [99]) == search(signatures, text, [7], [3.0], [2])


def test_a_text_that_was_cut_says_so(signatures: Signatures) -> None:
    text = ["a dog", "a dog " * 20, "", " " * 1000]
    given = {"text": tf.constant(text), "output": tf.constant(["a", "a", "", "\u3000"])}
    for name in ("serving_default", "n_best", "align", "score"):
        inputs = {column: given[column] for column in DOCUMENTED[name][0]}
        assert signatures[name](**inputs)["is_cut"].numpy().tolist() == [False, True, False, False]
    long = signatures["score"](text=tf.constant(["a"]), output=tf.constant(["a" * 99]))
    assert long["is_cut"].numpy().tolist() == [True]


def test_options_need_a_row_for_each_text(signatures: Signatures) -> None:
    message = r"`length_penalty` must have a row for each text, or one for all.* received:\] \[2\] \[3\]"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        search(signatures, ["a", "b", "c"], [5], [1.0, 2.0], [1])


def test_invalid_utf8_gets_an_answer_and_changes_no_neighbor(signatures: Signatures) -> None:
    serve, rows = signatures["serving_default"], [b"a dog", b"\xff\xfe\xc3", b"", b"the rat"]
    outputs = serve(text=tf.constant(rows))["output"].numpy().tolist()
    assert outputs == [serve(text=tf.constant([row]))["output"].numpy()[0] for row in rows]
    assert outputs[2] == b""
