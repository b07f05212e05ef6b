"""A text generator as a SavedModel: written, verified and asked, with a tokenizer of Keras."""

import contextlib
import dataclasses
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

import keras_transformer as kt
from helpers import asked_without_keras
from keras_transformer.errors import InputError
from keras_transformer.export import ServedModel, export_litert, export_saved_model, verify_saved_model

PROMPTS = ["the dog", "", "a cat sits on it", "a"]


@pytest.fixture(scope="module")
def generator() -> kt.TextGenerator:
    layer = keras.layers.TextVectorization()
    layer.adapt(["a dog runs", "the cat sits on it"])
    tokenizer = kt.text.as_tokenizer(layer)
    keras.utils.set_random_seed(2)
    size = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 8}
    model = kt.CausalLM(tokenizer.vocabulary_size, **size)
    return kt.TextGenerator(model, tokenizer, search=kt.decoding.BeamSearch(2), max_length=7)


@pytest.mark.slow
def test_it_is_exported_and_answers_as_the_generator(generator: kt.TextGenerator, tmp_path: Path) -> None:
    version = export_saved_model(generator, tmp_path / "words", PROMPTS)
    names = {str(path.relative_to(version)) for path in version.rglob("*")}
    assert {"assets/vocabulary.json", "assets.extra/tf_serving_warmup_requests"} <= names
    served = ServedModel(version)  # with no operation that is not in the list
    assert served.translate(PROMPTS) == generator.generate(PROMPTS)
    scores = [score.score for score in generator.score(PROMPTS, ["the dog runs", "a", "a cat", "it"])]
    found = [score.score for score in served.score(PROMPTS, ["the dog runs", "a", "a cat", "it"])]
    assert found == pytest.approx(scores, abs=1e-4)
    with pytest.raises(
        InputError, match=r"has no signature align\. It has: n_best, score, search, serving_default"
    ):
        served.align(PROMPTS)
    readme = (version / "README.md").read_text()
    assert "align" not in readme
    assert "it begins with its prompt" in readme
    path = version / "assets.extra/tf_serving_warmup_requests"
    records = [bytes(record.numpy()) for record in tf.data.TFRecordDataset(str(path))]
    logs = [prediction_log_pb2.PredictionLog.FromString(record).predict_log for record in records]
    signatures = {log.request.model_spec.signature_name for log in logs}
    assert signatures == {"serving_default", "n_best", "score", "search"}
    search = tf.saved_model.load(str(version)).signatures["search"]
    one = {"length_penalty": tf.constant([1.0]), "num_hypotheses": tf.constant([1])}
    for max_length, is_cut in ((6, []), (4, [2]), (2, [0, 2])):
        found = search(text=tf.constant(PROMPTS), max_length=tf.constant([max_length]), **one)
        shorter = generator.with_changes(max_length=max_length)
        with pytest.warns(kt.tasks.TruncationWarning) if is_cut else contextlib.nullcontext():
            wanted = shorter.generate(PROMPTS)
        assert [text.decode() for text in found["output"][:, 0].numpy()] == wanted
        assert np.flatnonzero(found["is_cut"]).tolist() == is_cut


@pytest.mark.slow
@pytest.mark.parametrize("optimize", ["float32", "xla"])
def test_samples_are_those_of_python(generator: kt.TextGenerator, tmp_path: Path, optimize: str) -> None:
    search = kt.decoding.SampleSearch(0.9, top_p=0.95, num_samples=2)
    sampling = generator.with_changes(search=search)
    version = export_saved_model(sampling, tmp_path / "sampling", PROMPTS, optimize=optimize)
    # Without a seed the export has the seed 0, and the number of a text in a call is the seed of its request.
    fixed = generator.with_changes(search=dataclasses.replace(search, seed=0))
    served = ServedModel(version)
    assert served.translate([PROMPTS[0]] * 3) == fixed.generate(PROMPTS[:1]) * 3
    if optimize == "float32":
        numbers = {"max_length": [-1] * 4, "length_penalty": [-1.0] * 4, "num_hypotheses": [-1] * 4}
        outputs = served["search"](tf.constant(PROMPTS), *map(tf.constant, numbers.values()), tf.range(4))[
            "output"
        ]
        wanted = [[each.text.encode() for each in row] for row in fixed.n_best(PROMPTS)]
        assert outputs.numpy().tolist() == wanted
        verify_saved_model(version, sampling, PROMPTS)


@pytest.mark.slow
@pytest.mark.parametrize("search", [kt.decoding.GreedySearch(), kt.decoding.BeamSearch(3)])
def test_a_server_without_keras_answers_as_in_memory(
    generator: kt.TextGenerator, tmp_path: Path, search: kt.decoding.Search
) -> None:
    words = ["the", "dog", "cat", "a", "sits", "unknown", "\u00e9t\u00e9", "\t"]
    random = np.random.default_rng(5)
    prompts = [" ".join(random.choice(words, number % 6)) for number in range(196)]
    prompts += ["   ", "\n", "dog " * 2000, "\u0000"]
    asked = generator.with_changes(search=search)
    version = export_saved_model(asked, tmp_path / "words", PROMPTS)
    with pytest.warns(kt.tasks.TruncationWarning):
        expected = asked.translate_with_scores(prompts)
    assert len({output.text for output in expected}) > 20
    for rows in asked_without_keras(version, prompts, [1, 7, 200]):
        assert [row["output"] for row in rows] == [output.text for output in expected]
        assert [row["score"] for row in rows] == pytest.approx([each.score for each in expected], abs=1e-5)
        assert [row["is_cut"] for row in rows][-2]


def test_what_cannot_be_exported_is_refused(generator: kt.TextGenerator, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"must be a Translator, .*Received: a TextGenerator"):
        export_litert(generator, tmp_path / "a.tflite")
