"""The double's gRPC interface, through the official stubs."""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
import tensorflow as tf
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2, prediction_service_pb2_grpc


@pytest.fixture(scope="module")
def stub(ports: Any) -> Iterator[Any]:
    with grpc.insecure_channel(f"127.0.0.1:{ports.grpc}") as channel:
        yield prediction_service_pb2_grpc.PredictionServiceStub(channel)


def request(signature_name: str = "", name: str = "toy", **inputs: list[bytes]) -> predict_pb2.PredictRequest:
    tensors = {key: tf.make_tensor_proto(value, tf.string) for key, value in inputs.items()}
    message = predict_pb2.PredictRequest(inputs=tensors)
    message.model_spec.name, message.model_spec.signature_name = name, signature_name
    return message


def test_predict(stub: Any) -> None:
    response = stub.Predict(request(text=[b"ab", b"\xff\0"]), timeout=20)
    assert tf.make_ndarray(response.outputs["output"]).tolist() == [b"AB", b"\xff\0"]
    assert tf.make_ndarray(response.outputs["score"]).tolist() == [-2.0, -2.0]
    spec = response.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("toy", 2, "serving_default")


def test_a_message_may_be_as_large_as_for_the_real_server(ports: Any) -> None:
    text, options = b"a" * 5 * 2**20, [("grpc.max_receive_message_length", 2**24)]
    with grpc.insecure_channel(f"127.0.0.1:{ports.grpc}", options=options) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        response = stub.Predict(request(text=[text]), timeout=60)
    assert tf.make_ndarray(response.outputs["output"]).tolist() == [text.upper()]


def test_a_version_and_a_label_can_be_asked(stub: Any) -> None:
    by_version, by_label = request(text=[b"a"]), request(text=[b"a"])
    by_version.model_spec.version.value = 1
    by_label.model_spec.version_label = "old"
    for message in (by_version, by_label):
        outputs = stub.Predict(message, timeout=20).outputs
        assert tf.make_ndarray(outputs["output"]).tolist() == [b"A?"]


@pytest.mark.parametrize(
    ("message", "code", "details"),
    [
        (request(name="other", text=[b"a"]), "NOT_FOUND", "Servable not found for request: Latest(other)"),
        (request("x", text=[b"a"]), "FAILED_PRECONDITION", 'Serving signature key "x" not found.'),
        (request(word=[b"a"]), "INVALID_ARGUMENT", "Inputs expected to be in the request {word}"),
        (request("score", text=[b"a"]), "INVALID_ARGUMENT", "Missing but required: {output}."),
        (request("score", text=[b"a"], output=[]), "INVALID_ARGUMENT", "assertion failed"),
    ],
)
def test_errors(stub: Any, message: predict_pb2.PredictRequest, code: str, details: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        stub.Predict(message, timeout=20)
    assert caught.value.code().name == code
    assert details in caught.value.details()


def test_metadata_is_that_of_the_signatures(stub: Any) -> None:
    message = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    message.model_spec.name = "toy"
    signatures = get_model_metadata_pb2.SignatureDefMap()
    stub.GetModelMetadata(message, timeout=20).metadata["signature_def"].Unpack(signatures)
    assert sorted(signatures.signature_def["score"].outputs) == ["num_tokens", "score"]


def test_other_metadata_is_refused(stub: Any) -> None:
    message = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["flops"])
    message.model_spec.name = "toy"
    with pytest.raises(grpc.RpcError, match="flops"):
        stub.GetModelMetadata(message, timeout=20)
