"""Requests that TensorFlow Serving sends itself when it loads a model.

The first request of a signature is slow; with these, a server is warm before it is ready.
See "SavedModel Warmup" in the guide of TensorFlow Serving.
"""

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

WARMUP_FILE = Path("assets.extra", "tf_serving_warmup_requests")


def write_warmup_requests(directory: Path, name: str, texts: Sequence[str]) -> None:
    """Writes requests for `serving_default`, each of a single text and one of all.

    Args:
        directory: of the SavedModel.
        name: of the model on the server.
        texts: real examples.
    """
    path = directory / WARMUP_FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for batch in [[text] for text in texts] + [list(texts)]:
            writer.write(_request(name, batch).SerializeToString())


def _request(name: str, texts: list[str]) -> prediction_log_pb2.PredictionLog:
    request = predict_pb2.PredictRequest(
        model_spec=model_pb2.ModelSpec(name=name, signature_name="serving_default"),
        inputs={"text": tf.make_tensor_proto(texts, tf.string)},
    )
    return prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
