"""One version of a model: loaded, warmed up, and asked by the names of its signature."""

import functools
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from model_server_double.errors import ServerError

WARMUP_FILE = Path("assets.extra", "tf_serving_warmup_requests")


class ServedVersion:
    """A SavedModel, loaded as a server does: the graph alone, without Python of the package.

    Args:
        directory: of the version.
        warmup: whether the recorded requests are answered first.
    """

    def __init__(self, directory: Path, *, warmup: bool = True) -> None:
        load_text_operations()
        model = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
        [graph] = [graph for graph in model.meta_graphs if "serve" in graph.meta_info_def.tags]
        self.signature_defs = {
            name: signature
            for name, signature in sorted(graph.signature_def.items())
            if not name.startswith("__")
        }
        self._module = tf.saved_model.load(str(directory))
        self.num_warmup_requests = self._warm_up(directory / WARMUP_FILE) if warmup else 0

    def signature_def(self, name: str) -> Any:
        """Return what a signature takes and gives; that of `serving_default` for the empty name."""
        name = name or "serving_default"
        if name not in self.signature_defs:
            raise ServerError(f'Serving signature name: "{name}" not found in signature def')
        return self.signature_defs[name]

    def input_dtypes(self, signature_name: str) -> dict[str, tf.DType]:
        """Return the dtype of each input."""
        inputs = self.signature_def(signature_name).inputs
        return {name: tf.as_dtype(inputs[name].dtype) for name in sorted(inputs)}

    def predict(self, signature_name: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run a signature."""
        dtypes = self.input_dtypes(signature_name)
        defaults = self.signature_def(signature_name).defaults
        arrays = {**{name: tf.make_ndarray(value) for name, value in defaults.items()}, **arrays}
        check_names(set(arrays), set(dtypes))
        run = self._module.signatures[signature_name or "serving_default"]
        try:
            tensors = {name: tf.constant(arrays[name], dtypes[name]) for name in dtypes}
            return {name: value.numpy() for name, value in run(**tensors).items()}
        except (tf.errors.OpError, TypeError, ValueError) as error:
            raise ServerError(getattr(error, "message", str(error))) from error

    def answer(self, request: predict_pb2.PredictRequest) -> dict[str, np.ndarray]:
        """Run the signature that a request of the official messages names."""
        arrays = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
        return self.predict(request.model_spec.signature_name, arrays)

    def _warm_up(self, path: Path) -> int:
        """Answer the recorded requests and return how many there were."""
        if not path.exists():
            return 0
        records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
        logs = [prediction_log_pb2.PredictionLog.FromString(record) for record in records]
        for log in logs:
            self.answer(log.predict_log.request)
        return len(logs)


@functools.cache
def load_text_operations() -> None:
    """Load what the real server links in: the operations of TensorFlow Text, not its Python."""
    package: Any = importlib.util.find_spec("tensorflow_text")
    for library in sorted(Path(package.origin).parent.glob("python/ops/*.so")):
        tf.load_op_library(str(library))


def check_names(received: set[str], wanted: set[str]) -> None:
    if extra := sorted(received - wanted):
        names = "{" + ",".join(sorted(wanted)) + "}"
        message = f"input tensor alias not found in signature: {extra[0]}."
        raise ServerError(f"{message} Inputs expected to be in the set {names}.")
    if missing := sorted(wanted - received):
        raise ServerError(
            f"input size does not match signature. Missing but required: {{{','.join(missing)}}}."
        )
