"""An export that is not what it must be is refused."""

import copy
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from keras_transformer.decoding import Translation
from keras_transformer.export import SIGNATURES, ExportError, verify_saved_model
from keras_transformer.export.verification import (
    NOT_UTF8,
    as_arrays,
    ask_fresh_process,
    check_answers,
    check_specifications,
    last_error,
)


def good_report() -> dict[str, Any]:
    return {
        "together": {"output": ["yes", "\xc3\xa4"], "score": [-0.5, -0.25]},
        "alone": [{"output": ["yes"], "score": [-0.5]}, {"output": ["\xc3\xa4"], "score": [-0.25]}],
        "rows_of_nothing": {"output": 0, "score": 0},
    }


def check(report: dict[str, Any]) -> None:
    expected = [Translation("yes", -0.5)]
    check_answers("serving_default", ["x", "beyond the expected"], report, expected)


def test_equal_answers_pass() -> None:
    check(good_report())


@pytest.mark.parametrize(("name", "value"), [("output", "no"), ("score", -0.4)])
def test_another_text_or_score_is_refused(name: str, value: Any) -> None:
    report = good_report()
    report["together"][name][0] = value
    wanted = r"serving_default must answer 'x' with Translation\(text='yes', score=-0\.5\)\. Received: "
    with pytest.raises(ExportError, match=wanted):
        check(report)


def test_an_answer_that_depends_on_the_batch_is_refused() -> None:
    report = good_report()
    report["alone"][1]["output"] = ["o"]
    with pytest.raises(
        ExportError, match=r"'beyond the expected' in a batch as alone: .*'o'.*Received: .*'ä'"
    ):
        check(report)


def test_rows_from_nothing_are_refused() -> None:
    report = good_report()
    report["rows_of_nothing"]["score"] = 1
    with pytest.raises(ExportError, match=r"must answer no rows with no rows\. Received: .*'score': 1"):
        check(report)


def specifications() -> dict[str, Any]:
    return {
        name: {
            side: {key: [dtype, [None] * rank] for key, (dtype, rank) in columns.items()}
            for side, columns in signature._asdict().items()
        }
        for name, signature in SIGNATURES.items()
    }


def test_documented_signatures_pass() -> None:
    check_specifications(specifications())


@pytest.mark.parametrize(
    ("signature", "side", "name", "value", "message"),
    [
        ("score", "outputs", "num_tokens", ["int64", [None]], "The outputs of score must be .*int64"),
        ("n_best", "outputs", "output", ["string", [None]], "The outputs of n_best must be "),
        ("align", "inputs", "text", ["string", [1]], r"The inputs of align must take any batch size.*\[1\]"),
        ("align", "inputs", "more", ["string", [None]], "The inputs of align must be .*more"),
    ],
)
def test_other_signatures_are_refused(
    signature: str, side: str, name: str, value: list, message: str
) -> None:
    changed = copy.deepcopy(specifications())
    changed[signature][side][name] = value
    with pytest.raises(ExportError, match=message):
        check_specifications(changed)


def test_a_missing_signature_is_refused() -> None:
    changed = specifications()
    del changed["align"]
    with pytest.raises(ExportError, match=r"Signatures must be \['align', .* Received: \['n_best', "):
        check_specifications(changed)


def test_python_inside_the_graph_is_refused(tmp_path: Path) -> None:
    def shout(text: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"output": tf.numpy_function(lambda rows: rows, [text], tf.string)}

    function = tf.function(shout, input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    tf.saved_model.save(tf.Module(), str(tmp_path), {"serving_default": function.get_concrete_function()})
    with pytest.raises(ExportError, match=r"only operations of TensorFlow .* Received: PyFunc\."):
        verify_saved_model(tmp_path, ["x"], ["y"], {}, needs_tensorflow_text=False)


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"must answer on its own. Received: .*saved_model.pb"):
        ask_fresh_process(tmp_path, {"text": [b"x"], "output": [b"y"]}, needs_tensorflow_text=False)


def test_bytes_come_back_as_they_were() -> None:
    arrays = as_arrays({"output": [["\xff\xfe", ""]], "score": [[-1.0, 0.0]]})
    assert arrays["output"].tolist() == [[NOT_UTF8[:2], b""]]
    assert arrays["score"].shape == (1, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Traceback (most recent call last):\n  x\nValueError: no\n", "ValueError: no"),
        (
            "I0000 started\na.b.InvalidArgumentError: Graph execution error:\n\n  at node x\nsee above\n",
            "a.b.InvalidArgumentError: Graph execution error: at node x see above",
        ),
        ("KeyError\nwhile that was handled\nMemoryError", "MemoryError"),
        ("Segmentation fault\n", "Segmentation fault"),
        ("", ""),
        ("OSError: " + "x" * 2000, "OSError: " + "x" * 991),
    ],
)
def test_the_last_error(text: str, message: str) -> None:
    assert last_error(text) == message
