"""The calls that a task in memory and a served one share, over fake functions; and what they return."""

import re
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.tasks import (
    Alignment,
    PairScore,
    TextTask,
    Translation,
    TruncationWarning,
)
from keras_transformer.text import Tokenizer

TEXTS = ["bb", "a", "ccc"]


class Echo(TextTask):
    """Answers with the text, then with the text in capitals; reads four characters."""

    reader = Tokenizer
    num_outputs = 2
    limits: ClassVar[dict[str, int]] = {"max_source_length": 4, "max_target_length": 5}

    def __init__(self) -> None:
        self.batches: list[tuple[list[list[str]], list[int]]] = []

    @property
    def functions(self) -> "Echo":
        return self

    def __getitem__(self, signature: str) -> Callable[..., dict[str, Any]]:
        def answer(*columns: Any) -> dict[str, Any]:
            *texts, numbers = columns
            decoded = [[text.decode() for text in column.numpy()] for column in texts]
            self.batches.append((decoded, numbers))
            return self.answer(signature, decoded)

        return answer

    def answer(self, signature: str, columns: list[list[str]]) -> dict[str, Any]:
        texts = np.array([text.encode() for text in columns[0]], object)
        is_cut = np.array([len(text) > 4 for text in columns[0]])
        scores = np.full(len(texts), -1.0, "float32")
        outputs: dict[str, Any] = {"output": texts, "score": scores, "is_cut": is_cut}
        if signature == "n_best":
            outputs["output"] = np.stack([texts, [text.upper() for text in texts]], axis=1)
            outputs["score"] = np.stack([scores, 2 * scores], axis=1)
        if signature == "score":
            outputs["num_tokens"] = np.array([len(target) for target in columns[1]])
        return outputs


def test_every_call_takes_an_iterable_and_keeps_the_order() -> None:
    echo = Echo()
    assert echo.translate(iter(TEXTS), batch_size=2) == TEXTS
    assert echo.translate_with_scores(iter(TEXTS)) == [Translation(text, -1.0) for text in TEXTS]
    assert [outputs[1] for outputs in echo.n_best(iter(TEXTS), batch_size=2)] == [
        Translation(text.upper(), -2.0) for text in TEXTS
    ]
    assert echo.translate([]) == []


def test_the_longest_come_first_and_progress_is_told() -> None:
    echo, done = Echo(), []
    echo.translate(["a", "ccc", "bb"], batch_size=2, progress=done.append)
    assert echo.batches == [([["ccc", "bb"]], [1, 2]), ([["a"]], [0])]
    assert done == [2, 1]


def test_pairs_are_batched_by_their_longer_side() -> None:
    echo = Echo()
    scores = echo.score(iter(TEXTS), iter(["x", "yyyyy", "z"]), batch_size=2)
    assert scores == [PairScore(-1.0, 1), PairScore(-1.0, 5), PairScore(-1.0, 1)]
    assert echo.batches == [([["a", "ccc"], ["yyyyy", "z"]], [1, 2]), ([["bb"], ["x"]], [0])]


def test_the_first_of_the_hypotheses_are_taken() -> None:
    assert [len(outputs) for outputs in Echo().n_best(TEXTS, num=1)] == [1, 1, 1]
    with pytest.raises(ValueError, match=r"between 1 and the 2 hypotheses .* Received: num=3\."):
        Echo().n_best(TEXTS, num=3)
    with pytest.raises(TypeError, match=r"`num` must be an integer or None\. Received: num=1\.5\."):
        Echo().n_best(TEXTS, 1.5)


def test_one_warning_counts_what_was_cut() -> None:
    message = r"^2 of 3 were longer than the translator's limits \(max_source_length=4\) and were cut off\.$"
    with pytest.warns(TruncationWarning, match=message) as caught:
        Echo().translate(["aaaaa", "b", "ccccc"], batch_size=1)
    assert [warning.filename for warning in caught] == [__file__]
    assert issubclass(TruncationWarning, UserWarning)


def test_a_row_for_each_text_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Echo, "answer", lambda *_: {"output": np.array([b"a"]), "score": np.zeros(1)})
    with pytest.raises(ValueError, match="shorter"):
        Echo().translate(["a", "b"])


def test_what_is_wrong_is_named() -> None:
    for wrong in (None, 3, {"a": "b"}):
        with pytest.raises(
            TypeError, match=rf"`texts` must be several strings.* Received: texts={re.escape(repr(wrong))}\."
        ):
            Echo().translate(wrong)
    for wrong in ("abc", b"abc"):
        with pytest.raises(TypeError, match=rf"several strings.* Received: texts={wrong!r}\."):
            Echo().n_best(wrong)
    with pytest.raises(TypeError, match=r"`texts` must hold strings\. Received: texts\[1\]=3\."):
        Echo().align(["a", 3])
    with pytest.raises(TypeError, match=r"Received: targets='abc'\."):
        Echo().score(["a"], "abc")
    with pytest.raises(ValueError, match=r"Received: 2 targets, 1 sources\."):
        Echo().score(["a"], ["b", "c"])
    for size in (0, -1):
        with pytest.raises(
            ValueError, match=rf"`batch_size` must be above zero\. Received: batch_size={size}\."
        ):
            Echo().translate(["a"], batch_size=size)


def test_texts_come_as_people_have_them() -> None:
    pairs = tf.data.Dataset.from_tensor_slices((TEXTS, TEXTS))
    dataset = pairs.map(lambda source, target: source)
    for texts in (
        np.array(TEXTS),
        np.array(TEXTS, object),
        tf.constant(TEXTS),
        dataset,
        dataset.batch(2),
        [text.encode() for text in TEXTS],
    ):
        assert Echo().translate(texts) == TEXTS
        assert [each.text for each in Echo().translate_with_scores(texts)] == TEXTS
    for wrong in (pairs, tf.constant([TEXTS]), np.array([TEXTS]), tf.constant([1.0])):
        with pytest.raises(TypeError, match=r"`texts` must hold strings\. Received: texts\[0\]="):
            Echo().translate(wrong)


def test_a_graph_has_no_texts_yet() -> None:
    texts = tf.data.Dataset.from_tensor_slices(TEXTS)
    for dataset in (texts, texts.batch(2)):
        with pytest.raises(
            TypeError, match=r"strings, not tensors of a graph: in a graph, call the signatures"
        ):
            dataset.map(lambda text: Echo().translate(text))


@pytest.mark.parametrize("text", ["bb\0", b"bb\0", tf.constant("bb\0")])
def test_a_single_string_has_a_single_string(text: Any) -> None:
    assert Echo().translate(text) == "bb\0"
    for wrong in (np.array(3), tf.constant(2)):
        with pytest.raises(TypeError, match="must hold strings"):
            Echo().translate(wrong)


def test_hypotheses_without_a_sequence_are_left_out() -> None:
    outputs = {
        "output": np.array([[b"x", b"", b""], [b"", b"", b""]], object),
        "score": np.array([[-1.0, -2.0, -1e30], [0.0, -1e30, -1e30]], "float32"),
    }
    first, empty = Echo().specification("n_best").results(outputs)
    assert first == [Translation("x", -1.0), Translation("", -2.0)]
    assert empty == [Translation("", 0.0)]


def test_an_alignment_is_cut_to_its_tokens() -> None:
    attention = np.arange(12, dtype="float32").reshape(1, 3, 4)
    outputs = {
        "output": np.array(["ä".encode()], object),
        "score": np.array([-1.0]),
        "source_tokens": np.array([[b"a", b"[END]", b"", b""]], object),
        "output_tokens": np.array([["ä".encode(), b"[END]", b""]], object),
        "attention": attention,
    }
    [alignment] = Echo().specification("align").results(outputs)
    assert (alignment.text, alignment.score) == ("ä", -1.0)
    assert (alignment.source_tokens, alignment.output_tokens) == (("a", "[END]"), ("ä", "[END]"))
    np.testing.assert_array_equal(alignment.attention, [[0, 1], [4, 5]])


def test_results_are_values_but_for_alignments() -> None:
    assert Translation("a", -0.5) == Translation("a", -0.5) != Translation("a", -0.25)
    assert PairScore(-1.0, 2) != PairScore(-1.0, 3)
    first, second = (Alignment("", 0.0, (), (), np.zeros((2, 2))) for _ in range(2))
    assert first != second  # and does not ask whether arrays are true
    with pytest.raises(AttributeError):
        Translation("a", 0.0).text = "b"
