"""One version of a model: loaded, warmed up, and asked by the names of its signature."""

import functools
import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from model_server_double.batching import Arrays, Batcher, Run
from model_server_double.errors import ServerError

WARMUP_FILE = Path("assets.extra", "tf_serving_warmup_requests")


class ServedVersion:
    """A SavedModel, loaded as a server does: the graph alone, without Python of the package.

    Args:
        directory: of the version.
        warmup: whether the recorded requests are answered first.
        batcher: joins requests, those of the warm-up too; None for each by itself.
    """

    def __init__(self, directory: Path, *, warmup: bool = True, batcher: Batcher | None = None) -> None:
        load_text_operations()
        model = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
        [graph] = [graph for graph in model.meta_graphs if "serve" in graph.meta_info_def.tags]
        self.signature_defs = {
            name: signature
            for name, signature in sorted(graph.signature_def.items())
            if not name.startswith("__")
        }
        self._module = tf.saved_model.load(str(directory))
        self._runs: dict[str, Run] = {
            name: functools.partial(self._run, name) for name in self.signature_defs
        }
        if batcher is not None:
            self._runs = {name: batcher.queue(run).ask for name, run in self._runs.items()}
        self.num_warmup_requests = self._warm_up(directory / WARMUP_FILE) if warmup else 0

    def input_dtypes(self, signature_name: str) -> dict[str, tf.DType]:
        """Return the dtype of each input; of `serving_default` for the empty name."""
        name = signature_name or "serving_default"
        if name not in self.signature_defs:
            raise ServerError(f'Serving signature name: "{name}" not found in signature def')
        inputs = self.signature_defs[name].inputs
        return {alias: tf.as_dtype(inputs[alias].dtype) for alias in sorted(inputs)}

    def predict(self, signature_name: str, arrays: Mapping[str, np.ndarray]) -> Arrays:
        """Run a signature."""
        name = signature_name or "serving_default"
        if name not in self.signature_defs:
            raise ServerError(f'Serving signature key "{name}" not found.', "FAILED_PRECONDITION")
        return self._runs[name](input_values(self.signature_defs[name], arrays))

    def _run(self, name: str, arrays: Arrays) -> Arrays:
        dtypes = self.input_dtypes(name)
        try:
            tensors = {alias: tf.constant(arrays[alias], dtype) for alias, dtype in dtypes.items()}
            return {alias: value.numpy() for alias, value in self._module.signatures[name](**tensors).items()}
        except (tf.errors.OpError, TypeError, ValueError) as error:
            raise ServerError(getattr(error, "message", str(error))) from error

    def answer(self, request: predict_pb2.PredictRequest) -> Arrays:
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


def input_values(signature_def: Any, arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Return an array for each input: that of the request, or the default of the signature as it stands."""
    inputs, defaults = signature_def.inputs, signature_def.defaults
    extra, missing = {*arrays} - {*inputs}, {*inputs} - {*arrays}
    if len(arrays) > len(inputs) or (len(arrays) < len(inputs) and not defaults):
        sizes = f"{len(arrays)}!={len(inputs)} len({_names(arrays)}) != len({_names(inputs)})"
        raise ServerError(
            f"input size does not match signature: {sizes}. Sent extra: {_names(extra)}. "
            f"Missing but required: {_names(missing)}."
        )
    for name in sorted(missing - {*defaults}):
        raise ServerError(
            f"Signature input alias: {name}(feed name: {inputs[name].name}) not found in request and no "
            f"default value provided. Inputs expected to be in the request {_names(arrays)}, or default "
            f"input alias set: {_names(defaults)[1:-1]}"
        )
    if extra:
        used, given = _names({*arrays} - extra)[1:-1], _names(arrays)[1:-1]
        raise ServerError(
            f"Inputs contains invalid name. Used request inputs: {used}, request input: {given}"
        )
    return {**{name: tf.make_ndarray(defaults[name]) for name in missing}, **arrays}


def _names(names: Iterable[str]) -> str:
    return "{" + ",".join(sorted(names)) + "}"
