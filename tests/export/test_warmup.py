"""Warm-up requests, read back with TensorFlow Serving's own messages."""

from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from keras_transformer.export.saved_model import WARMUP_FILE, write_warmup_requests
from keras_transformer.export.serving_module import SIGNATURES


def read_requests(directory: Path) -> list[Any]:
    records = tf.data.TFRecordDataset(str(directory / WARMUP_FILE)).as_numpy_iterator()
    return [prediction_log_pb2.PredictionLog.FromString(record).predict_log.request for record in records]


def test_requests_are_those_of_the_examples(tmp_path: Path) -> None:
    write_warmup_requests(tmp_path, "de_en", ["Ein Hund läuft.", "Zwei"], ["A dog runs.", "Two"])
    requests = read_requests(tmp_path)
    assert {request.model_spec.name for request in requests} == {"de_en"}
    wanted = {"text": ["Ein Hund läuft.".encode(), b"Zwei"], "output": [b"A dog runs.", b"Two"]}
    for name, signature in SIGNATURES.items():
        batches = [r.inputs for r in requests if r.model_spec.signature_name == name]
        assert len(batches) == 3
        for column in signature.inputs:
            first, second = wanted[column]
            values = [tf.make_ndarray(batch[column]).tolist() for batch in batches]
            assert values == [[first], [second], [first, second]]


def test_half_a_surrogate_is_no_error(tmp_path: Path) -> None:
    write_warmup_requests(tmp_path, "de_en", ["\ud800"], ["x"])
    assert (tmp_path / WARMUP_FILE).stat().st_size


def test_a_single_example_is_asked_once(tmp_path: Path) -> None:
    write_warmup_requests(tmp_path, "de_en", ["Zwei"], ["Two"])
    assert len(read_requests(tmp_path)) == len(SIGNATURES)


def test_a_loaded_export_answers_its_requests(exported: Path) -> None:
    loaded = tf.saved_model.load(str(exported))
    for request in read_requests(exported):
        columns = {name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()}
        scores = loaded.signatures[request.model_spec.signature_name](**columns)["score"]
        assert len(scores) == len(columns["text"])
