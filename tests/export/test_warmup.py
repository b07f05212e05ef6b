"""Warm-up requests, read back with TensorFlow Serving's own messages."""

from pathlib import Path

import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from keras_transformer.export.warmup import WARMUP_FILE, write_warmup_requests


def test_requests_are_those_of_the_examples(tmp_path: Path) -> None:
    write_warmup_requests(tmp_path, "de_en", ["Ein Hund läuft.", "Zwei Hunde"])
    records = tf.data.TFRecordDataset(str(tmp_path / WARMUP_FILE)).as_numpy_iterator()
    requests = [prediction_log_pb2.PredictionLog.FromString(record).predict_log.request for record in records]
    assert {(r.model_spec.name, r.model_spec.signature_name) for r in requests} == {
        ("de_en", "serving_default")
    }
    texts = [tf.make_ndarray(request.inputs["text"]).tolist() for request in requests]
    first, second = "Ein Hund läuft.".encode(), b"Zwei Hunde"
    assert texts == [[first], [second], [first, second]]
