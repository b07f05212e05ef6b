"""Requests that TensorFlow Serving sends itself when it loads a model.

The first request of a signature is slow; with these, a server is warm before it is ready.
See "SavedModel Warmup" in the guide of TensorFlow Serving.
"""

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from keras_transformer.decoding.answers import utf8
from keras_transformer.export.signatures import SIGNATURES

WARMUP_FILE = Path("assets.extra", "tf_serving_warmup_requests")


def write_warmup_requests(directory: Path, name: str, texts: Sequence[str], outputs: Sequence[str]) -> None:
    """Writes requests for every signature, each of a single text and one of all.

    So a server is warm for both batch sizes, and an XLA export has compiled the lengths of the texts.

    Args:
        directory: of the SavedModel.
        name: of the model on the server.
        texts: real examples.
        outputs: an answer to each, to be scored.
    """
    path = directory / WARMUP_FILE
    path.parent.mkdir(exist_ok=True)
    batches = [slice(row, row + 1) for row in range(len(texts))]
    if len(texts) > 1:
        batches.append(slice(None))
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature in SIGNATURES:
            for rows in batches:
                columns = {"text": texts[rows], "output": outputs[rows]}
                writer.write(_request(name, signature, columns).SerializeToString())


def _request(
    name: str, signature: str, columns: dict[str, Sequence[str]]
) -> prediction_log_pb2.PredictionLog:
    inputs = {column: columns[column] for column in SIGNATURES[signature].inputs}
    request = predict_pb2.PredictRequest(
        model_spec=model_pb2.ModelSpec(name=name, signature_name=signature),
        inputs={column: tf.make_tensor_proto(utf8(rows), tf.string) for column, rows in inputs.items()},
    )
    return prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
