"""Asks a model server over gRPC, with the official stubs of tensorflow-serving-api.

python examples/tf_serving/grpc_client.py "27. jan. 2094"
python examples/tf_serving/grpc_client.py --n-best 3 < dates.txt
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import click
from signatures import Inputs, Outputs, Target, client_command

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Attention maps of many texts are larger than the 4 MiB that gRPC takes by default.
MAX_MESSAGE_BYTES = 256 * 2**20


def predict_request(target: Target, signature: str, inputs: Inputs) -> Any:
    """Write a PredictRequest."""
    with silent_standard_error():
        # Imported late, since it takes seconds: --help and a wrong option answer at once.
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = target.model, signature
    if target.version is not None:
        request.model_spec.version.value = target.version
    if target.label is not None:
        request.model_spec.version_label = target.label
    for name, values in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(list(values), tf.string, shape=[len(values)]))
    return request


@contextlib.contextmanager
def silent_standard_error() -> Iterator[None]:
    """Lose what TensorFlow writes past every log level when it is imported; exceptions still rise."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def predict(server: str, request: Any, timeout: float) -> dict[str, Any]:
    """Send a request and read a list for each output; texts are decoded.

    Raises:
        click.ClickException: the server is away or refuses.
    """
    import grpc
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    options = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)]
    try:
        with grpc.insecure_channel(server, options=options) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            response = stub.Predict(request, timeout=timeout)
    except grpc.RpcError as error:
        raise click.ClickException(error_line(server, error.code().name, error.details(), timeout)) from error
    return {name: output_list(tensor) for name, tensor in response.outputs.items()}


def error_line(server: str, code: str, details: str, timeout: float) -> str:
    """Say in one line what went wrong."""
    details = " ".join(details.split())
    if code == "UNAVAILABLE":
        return f"Cannot reach {server}: {details}"
    if code == "DEADLINE_EXCEEDED":
        return f"{server} did not answer within {timeout:g} s."
    return f"{server} refuses with {code}: {details}"


def output_list(tensor: Any) -> Any:
    """Turn a TensorProto into nested lists; the export writes valid UTF-8."""
    import tensorflow as tf

    array = tf.make_ndarray(tensor)
    return decoded(array.tolist()) if array.dtype == object else array.tolist()


def decoded(value: Any) -> Any:
    """Turn the bytes of nested lists into texts."""
    return [decoded(item) for item in value] if isinstance(value, list) else value.decode("utf-8", "replace")


def ask(target: Target, signature: str, inputs: Inputs) -> Outputs:
    """Ask a signature."""
    return predict(target.server, predict_request(target, signature, inputs), target.timeout)


main = client_command("localhost:8500", ask)

if __name__ == "__main__":
    main()
