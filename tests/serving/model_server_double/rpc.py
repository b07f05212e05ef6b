"""The gRPC interface of the double, on the official service."""

from typing import Any

import grpc
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    model_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)
from typing_extensions import override

from model_server_double.errors import ServerError
from model_server_double.registry import Registry
from model_server_double.served_version import ServedVersion

SIGNATURE_FIELD = "signature_def"


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers `Predict` and `GetModelMetadata`.

    Args:
        registry: the models.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    @override
    def Predict(
        self, request: predict_pb2.PredictRequest, context: grpc.ServicerContext
    ) -> predict_pb2.PredictResponse:
        """Run a signature."""
        try:
            version, served = self._find(request.model_spec)
            outputs = served.answer(request)
        except ServerError as error:
            context.abort(grpc.StatusCode[error.code], str(error))
        spec = _spec(request.model_spec.name, version, request.model_spec.signature_name or "serving_default")
        tensors = {name: tf.make_tensor_proto(array) for name, array in outputs.items()}
        return predict_pb2.PredictResponse(outputs=tensors, model_spec=spec)

    @override
    def GetModelMetadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, context: grpc.ServicerContext
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """List the signatures."""
        try:
            version, served = self._find(request.model_spec)
            if list(request.metadata_field) != [SIGNATURE_FIELD]:
                raise ServerError(f"Metadata field {list(request.metadata_field)} is not supported")
        except ServerError as error:
            context.abort(grpc.StatusCode[error.code], str(error))
        signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=served.signature_defs)
        response = get_model_metadata_pb2.GetModelMetadataResponse(
            model_spec=_spec(request.model_spec.name, version, "")
        )
        response.metadata[SIGNATURE_FIELD].Pack(signatures)
        return response

    def _find(self, spec: model_pb2.ModelSpec) -> tuple[int, ServedVersion]:
        version = spec.version.value if spec.HasField("version") else None
        return self._registry.find(spec.name, version, spec.version_label)


def _spec(name: str, version: int, signature_name: str) -> Any:
    spec = model_pb2.ModelSpec(name=name, signature_name=signature_name)
    spec.version.value = version
    return spec
