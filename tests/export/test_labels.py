"""A classifier and a tagger as SavedModels: verified, and asked by a client without this package."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

import keras_transformer as kt
from helpers import asked_without_keras, talkative
from keras_transformer.errors import ExportError
from keras_transformer.export import (
    ServedClassifier,
    ServedTagger,
    export_saved_model,
    verify_saved_model,
)
from keras_transformer.text import SubwordTokenizer

SIZE = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16}
LABELS = ("no", "yes", "p\u00e9ut-\u00eatre")
WORDS = ["ab", "ba.", "(cab)", "b-a", "\u00e9t\u00e9", "abba"]
# 200 texts of 0 to 19 words.
TEXTS = [" ".join(np.random.default_rng(n).choice(WORDS, n % 20)) for n in range(200)]


@pytest.fixture(scope="module")
def tokenizer() -> SubwordTokenizer:
    return SubwordTokenizer.train(WORDS, vocabulary_size=20)


@pytest.fixture(scope="module")
def classifier(tokenizer: SubwordTokenizer) -> kt.TextClassifier:
    model = talkative(kt.EncoderModel(tokenizer.vocabulary_size, 3, pooling="mean", **SIZE), seed=4)
    return kt.TextClassifier(model, tokenizer, LABELS, max_length=20)


@pytest.fixture(scope="module")
def tagger(tokenizer: SubwordTokenizer) -> kt.TextTagger:
    model = talkative(kt.EncoderModel(tokenizer.vocabulary_size, 3, **SIZE), seed=4)
    return kt.TextTagger(model, tokenizer, ["O", "B-X", "I-X"], max_length=20)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*longer than the classifier's limits")
@pytest.mark.parametrize("multi_label", [False, True])
def test_a_served_classifier_answers_as_in_memory(
    classifier: kt.TextClassifier, tmp_path: Path, multi_label: bool
) -> None:
    classifier = classifier.with_changes(multi_label=multi_label)
    version = export_saved_model(classifier, tmp_path / "c", TEXTS[1:9])
    expected = classifier.classify(TEXTS)
    assert len({each.label for each in expected}) > 2
    served = ServedClassifier(version).classify(TEXTS)
    assert [each.labels for each in served] == [each.labels for each in expected]
    for rows in asked_without_keras(version, TEXTS, [1, 7, 200]):
        for row, each in zip(rows, expected, strict=True):
            assert row["label"] == each.label
            assert row["labels"] == [*LABELS]
            assert row["probabilities"] == pytest.approx([*each.probabilities.values()], abs=1e-6)
            assert (
                tuple(name for name, given in zip(LABELS, row["is_label"], strict=True) if given)
                == each.labels
            )
    page = (version / "README.md").read_text(encoding="utf-8")
    assert "The 3 labels: 'no', 'yes', 'p\u00e9ut-\u00eatre'." in page
    assert ("at least 0.5" in page) == multi_label
    path = str(version / "assets.extra/tf_serving_warmup_requests")
    logs = [bytes(record.numpy()) for record in tf.data.TFRecordDataset(path)]
    requests = [prediction_log_pb2.PredictionLog.FromString(log).predict_log.request for log in logs]
    assert [len(request.inputs["text"].string_val) for request in requests] == [1] * 8 + [8]
    with pytest.raises(ExportError, match="serving_default must return"):
        verify_saved_model(version, classifier.with_changes(labels=["yes", "no", "maybe"]), TEXTS[1:9])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*longer than the tagger's limits")
def test_a_served_tagger_answers_as_in_memory(tagger: kt.TextTagger, tmp_path: Path) -> None:
    version = export_saved_model(tagger, tmp_path / "t", TEXTS[1:9])
    expected = tagger.tag(TEXTS)
    for one, other in zip(ServedTagger(tmp_path / "t").tag(TEXTS), expected, strict=True):
        assert (one.tokens, one.tags, one.spans) == (other.tokens, other.tags, other.spans)
    for rows in asked_without_keras(version, TEXTS, [1, 7, 200]):
        for row, each in zip(rows, expected, strict=True):
            num = len(each.tokens)
            assert row["tokens"][:num] == [*each.tokens]
            assert not any(row["tokens"][num:] + row["ends"][num:] + row["probabilities"][num:])
            assert row["tags"][:num] == [*each.tags]
            assert row["probabilities"][:num] == pytest.approx(each.probabilities, abs=1e-6)
            assert [*zip(row["starts"][:num], row["ends"][:num], strict=True)] == [*each.offsets]
    assert "The 3 tags: 'O', 'B-X', 'I-X'." in (version / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*does not support masking")
def test_a_model_of_the_users_own_is_served(tokenizer: SubwordTokenizer, tmp_path: Path) -> None:
    inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(tokenizer.vocabulary_size, 4, mask_zero=True)(inputs)
    pooled, leaking = keras.layers.GlobalAveragePooling1D()(x), keras.layers.GlobalMaxPooling1D()(x)
    models = [keras.Model(inputs, keras.layers.Dense(3)(each)) for each in (pooled, leaking)]
    classifier, wrong = (kt.TextClassifier(talkative(each, seed=1), tokenizer, LABELS) for each in models)
    with pytest.raises(ExportError, match=r"serving_default must return .* in a batch, as for"):
        export_saved_model(wrong, tmp_path / "own", TEXTS[1:4])
    served = ServedClassifier(export_saved_model(classifier, tmp_path / "own", TEXTS[1:4]))
    assert [each.label for each in served.classify(TEXTS)] == [
        each.label for each in classifier.classify(TEXTS)
    ]


def test_options_of_searches_are_refused(classifier: kt.TextClassifier, tmp_path: Path) -> None:
    for options in ({"optimize": "xla"}, {"threads": 2}):
        with pytest.raises(ValueError, match=r"are for tasks that search. Received: .*TextClassifier"):
            export_saved_model(classifier, tmp_path / "c", **options)


@pytest.mark.slow
def test_frames_get_labels(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    frames = [draw.normal(size=(size, 2)).astype("float32") for size in (3, 9, 1, 5)] + [np.zeros((0, 2))]
    model = talkative(kt.EncoderModel(None, 3, feature_dim=2, pooling="mean", **SIZE), seed=4)
    classifier = kt.TextClassifier(model, kt.data.FrameNormalizer.adapt(frames[:4]), LABELS)
    expected = classifier.classify(frames)
    assert (expected[4].label, expected[4].probability) == ("", 0.0)
    assert classifier.classify(frames[1]).label == expected[1].label
    classifier.save(tmp_path / "saved")
    loaded = kt.TextClassifier.load(tmp_path / "saved")
    served = ServedClassifier(export_saved_model(loaded, tmp_path / "frames", frames[:3])).classify(frames)
    assert [each.label for each in served] == [each.label for each in expected]
