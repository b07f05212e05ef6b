"""Texts get the labels that the model gives them, in any batch, and hostile texts an answer."""

import json
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from helpers import talkative
from keras_transformer._files import Checksums
from keras_transformer.errors import InputError
from keras_transformer.tasks import TruncationWarning
from keras_transformer.text import CharacterTokenizer

SIZE = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16}
LABELS = ("x", "y", "z")
TEXTS = ["abc", "c", "", "bbbbbbb", " \u3000", "abcabcab", "qqq"]


@pytest.fixture(scope="module")
def model() -> Any:
    return talkative(kt.EncoderModel(7, 3, pooling="mean", **SIZE), seed=4)


@pytest.fixture(scope="module")
def classifier(model: Any) -> kt.TextClassifier:
    return kt.TextClassifier(model, CharacterTokenizer("abc"), LABELS, max_length=9)


def test_labels_are_those_of_the_model(classifier: kt.TextClassifier) -> None:
    found = classifier.classify(TEXTS)
    assert len({each.label for each in found}) > 2
    for text, each in zip(TEXTS, found, strict=True):
        if not text.strip():
            assert (each.label, each.probability, each.labels) == ("", 0.0, ())
            assert each.probabilities == dict.fromkeys(LABELS, 0.0)
            continue
        logits = classifier.model(np.asarray(classifier.tokenizer.padded_ids([text], 9)))[0]
        wanted = keras.ops.convert_to_numpy(keras.ops.softmax(logits))
        assert [*each.probabilities.values()] == pytest.approx(wanted, abs=1e-6)
        assert each.label == LABELS[wanted.argmax()]
        assert each.labels == (each.label,)
        assert each.probability == each.probabilities[each.label]


def test_a_batch_changes_no_answer(classifier: kt.TextClassifier) -> None:
    together = classifier.classify(TEXTS * 3, batch_size=5)
    alone = [classifier.classify(text) for text in TEXTS * 3]
    for one, other in zip(together, alone, strict=True):
        assert one.label == other.label
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)


def test_several_labels(model: Any) -> None:
    classifier = kt.TextClassifier(model, CharacterTokenizer("abc"), LABELS, multi_label=True)
    for text, each in zip(TEXTS, classifier.classify(TEXTS), strict=True):
        assert each.labels == tuple(name for name, value in each.probabilities.items() if value >= 0.5)
        if text.strip():
            logits = keras.ops.convert_to_numpy(
                model(np.asarray(classifier.tokenizer.padded_ids([text], 99)))
            )
            assert [*each.probabilities.values()] == pytest.approx(1 / (1 + np.exp(-logits[0])), abs=1e-6)


def test_hostile_texts_have_an_answer(classifier: kt.TextClassifier) -> None:
    texts = ["a" * 2**20, b"\xff\xfe", "\x00", "\ud800", "\U0001f600"]
    with pytest.warns(
        TruncationWarning, match=r"^1 of 5 were longer than the classifier's limits \(max_length=9"
    ):
        found = classifier.classify(texts)
    assert found[0].probabilities == pytest.approx(classifier.classify("a" * 8).probabilities, abs=1e-6)
    assert [sum(each.probabilities.values()) for each in found] == pytest.approx([1, 1, 0, 1, 1], abs=1e-5)
    assert classifier.classify([]) == []
    with pytest.raises(TypeError, match=r"`texts` must hold strings. Received: texts\[1\]=nan"):
        classifier.classify(["a", float("nan")])


def test_what_is_saved_answers_the_same(classifier: kt.TextClassifier, tmp_path: Path) -> None:
    classifier.save(tmp_path / "c")
    loaded = kt.TextClassifier.load(tmp_path / "c")
    assert (loaded.labels, loaded.multi_label, loaded.max_length) == (LABELS, False, 9)
    assert loaded.classify(TEXTS) == classifier.classify(TEXTS)
    with pytest.raises(InputError, match=r"it has no tagger.json"):
        kt.TextTagger.load(tmp_path / "c")
    path = tmp_path / "c" / "classifier.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "labels": ["x", "y"]}))
    with pytest.raises(InputError, match=r"classifier.json is damaged"):
        kt.TextClassifier.load(tmp_path / "c")
    (tmp_path / "c" / Checksums.file).unlink()
    with pytest.raises(InputError, match=r"must have an output for each label.*2 names, outputs.*3\)"):
        kt.TextClassifier.load(tmp_path / "c")


def test_a_changed_limit_takes_effect(classifier: kt.TextClassifier) -> None:
    shorter = classifier.with_changes()
    shorter.max_length = 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        assert shorter.classify("abc") == classifier.classify("ab")


def test_a_model_of_the_users_own() -> None:
    inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(7, 4)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.GlobalMaxPooling1D()(x)))
    found = kt.TextClassifier(model, CharacterTokenizer("abc"), ["p", "q"]).classify(["abc", "b"])
    assert {each.label for each in found} <= {"p", "q"}


class Headed(keras.Model):
    """A subclassed model around an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = kt.EncoderModel(7, 4, pooling="mean", **SIZE)
        self.head = keras.layers.Dense(2)

    def call(self, token_ids: Any, training: bool = False) -> Any:
        return self.head(self.encoder(token_ids, training=training))


def test_a_subclassed_model() -> None:
    model, tokenizer = Headed(), CharacterTokenizer("abc")
    [[first, second]] = keras.ops.convert_to_numpy(keras.ops.softmax(model(tokenizer.padded_ids(["abc"], 9))))
    [found] = kt.TextClassifier(model, tokenizer, ["p", "q"]).classify(["abc"])
    assert found.probabilities == pytest.approx({"p": first, "q": second}, rel=1e-5)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"labels": ["x", "y"]}, ValueError, r"Received: 2 names, outputs of shape \(None, 3\)"),
        ({"labels": ["x", "y", "x"]}, ValueError, r"different names, none empty. Received: 'x' twice"),
        ({"labels": "xyz"}, TypeError, r"`labels` must be several strings"),
        ({"labels": ["x"]}, ValueError, r"at least two names"),
        (
            {"tokenizer": CharacterTokenizer("ab")},
            ValueError,
            r"`tokenizer` must have the vocabulary.*=6, model",
        ),
        ({"max_length": 1}, ValueError, r"`max_length` must be at least 2"),
        ({"multi_label": 1}, TypeError, r"`multi_label` must be True or False"),
        ({"model": "x"}, TypeError, r"`model` must be a Model"),
        ({"model": kt.EncoderModel(7, 3, **SIZE)}, ValueError, r"outputs of shape \(None, None, 3\)"),
    ],
)
def test_wrong_arguments(
    classifier: kt.TextClassifier, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        classifier.with_changes(**options)
