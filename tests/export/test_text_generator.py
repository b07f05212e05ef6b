"""A text generator as a SavedModel: written, verified and asked, with a tokenizer of Keras."""

from pathlib import Path

import keras
import pytest
from tensorflow_serving.apis import prediction_log_pb2

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.export import ServedModel, export_litert, export_saved_model

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
    import tensorflow as tf

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
    assert "A text is a prompt" in readme
    path = version / "assets.extra/tf_serving_warmup_requests"
    records = [bytes(record.numpy()) for record in tf.data.TFRecordDataset(str(path))]
    logs = [prediction_log_pb2.PredictionLog.FromString(record).predict_log for record in records]
    signatures = {log.request.model_spec.signature_name for log in logs}
    assert signatures == {"serving_default", "n_best", "score", "search"}
    search = tf.saved_model.load(str(version)).signatures["search"]
    one = {"length_penalty": tf.constant([1.0]), "num_hypotheses": tf.constant([1])}
    found = search(text=tf.constant(PROMPTS), max_length=tf.constant([6]), **one)["output"][:, 0]
    shorter = kt.TextGenerator(generator.model, generator.tokenizer, search=generator.search, max_length=6)
    assert [text.decode() for text in found.numpy()] == shorter.generate(PROMPTS)


def test_what_cannot_be_exported_is_refused(generator: kt.TextGenerator, tmp_path: Path) -> None:
    sampling = kt.TextGenerator(generator.model, generator.tokenizer, search=kt.decoding.SampleSearch(seed=1))
    with pytest.raises(ValueError, match=r"must give the same answer each time .* SampleSearch"):
        export_saved_model(sampling, tmp_path / "sampling")
    with pytest.raises(TypeError, match=r"must be a Translator, .*Received: a TextGenerator"):
        export_litert(generator, tmp_path / "a.tflite")
