"""Asks a model server over gRPC, with the official stubs of tensorflow-serving-api.

python examples/tf_serving/grpc_client.py "27. jan. 2094"
python examples/tf_serving/grpc_client.py --n-best 3 < dates.txt
"""

import contextlib
import math
import os
from collections.abc import Iterator
from typing import Any

import click
from signatures import MAX_ANSWER_BYTES, Inputs, Outputs, Target, client_command, read_pem

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


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
        request.inputs[name].CopyFrom(tf.make_tensor_proto(list(values)))
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


def open_channel(target: Target) -> Any:
    """Make a channel, encrypted where TLS is asked for."""
    import grpc

    # gRPC takes 4 MiB by default, and sends requests of any size.
    options = [("grpc.max_receive_message_length", MAX_ANSWER_BYTES)]
    if not target.tls:
        return grpc.insecure_channel(target.server, options=options)
    credentials = grpc.ssl_channel_credentials(
        read_pem(target.ca_certificate), read_pem(target.key), read_pem(target.certificate)
    )
    return grpc.secure_channel(target.server.removeprefix("https://"), credentials, options=options)


def predict(target: Target, request: Any) -> dict[str, Any]:
    """Send a request and read a list for each output; texts are decoded.

    Raises:
        click.ClickException: the server is away, refuses, or is no model server.
    """
    import grpc
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    server, timeout = target.server, target.timeout
    try:
        with open_channel(target) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            # The deadline is that of the whole call.
            response = stub.Predict(request, timeout=timeout, metadata=[*target.headers().items()])
    except grpc.RpcError as error:
        raise click.ClickException(
            error_line(server, error.code().name, error.details() or "", timeout)
        ) from error
    return {name: output_list(server, tensor) for name, tensor in response.outputs.items()}


def error_line(server: str, code: str, details: str, timeout: float) -> str:
    """Say in one line what went wrong."""
    details = " ".join(details.split())
    if code == "UNAVAILABLE":
        return f"Cannot reach {server}: {details}"
    if code == "DEADLINE_EXCEEDED":
        return f"{server} did not answer within {timeout:g} s."
    return f"{server} refuses with {code}: {details}"


def output_list(server: str, tensor: Any) -> Any:
    """Turn a TensorProto into nested lists; the export writes valid UTF-8.

    Raises:
        click.ClickException: it is damaged, or its shape asks for more than an answer has.
    """
    import tensorflow as tf

    try:
        # A single number stands for a tensor of any shape.
        num_items = math.prod(size.size for size in tensor.tensor_shape.dim)
        if not 0 <= num_items <= MAX_ANSWER_BYTES // 4:
            raise ValueError(f"a tensor of {num_items} items")
        array = tf.make_ndarray(tensor)
    except (ValueError, TypeError) as error:
        cause = " ".join(str(error).split())
        raise click.ClickException(f"{server} did not answer with a tensor: {cause[:200]}") from error
    return decoded(array.tolist()) if array.dtype == object else array.tolist()


def decoded(value: Any) -> Any:
    """Turn the bytes of nested lists into texts."""
    return [decoded(item) for item in value] if isinstance(value, list) else value.decode("utf-8", "replace")


def ask(target: Target, signature: str, inputs: Inputs) -> Outputs:
    """Ask a signature."""
    return predict(target, predict_request(target, signature, inputs))


main = client_command("localhost:8500", ask)

if __name__ == "__main__":
    main()
