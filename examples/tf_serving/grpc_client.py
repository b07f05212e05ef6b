"""Asks a model server over gRPC, with the official stubs of tensorflow-serving-api.

python examples/tf_serving/grpc_client.py "27. jan. 2094"
python examples/tf_serving/grpc_client.py --n-best 3 < dates.txt
"""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
from signatures import answer_lines, choose_signature, client_options, signature_inputs

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Attention maps of many texts are larger than the 4 MiB that gRPC takes by default.
MAX_MESSAGE_BYTES = 256 * 2**20


def predict_request(
    model: str, version: int | None, label: str | None, signature: str, inputs: Mapping[str, Sequence[bytes]]
) -> Any:
    """Write a PredictRequest.

    Raises:
        click.UsageError: a version and a label are given.
    """
    if version is not None and label is not None:
        raise click.UsageError(f"--version and --label exclude each other. Received: {version} and {label}.")
    with silent_standard_error():
        # Imported late, since it takes seconds: --help and a wrong option answer at once.
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model, signature
    if version is not None:
        request.model_spec.version.value = version
    if label is not None:
        request.model_spec.version_label = label
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


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@client_options("localhost:8500")
def main(
    texts: tuple[str, ...],
    server: str,
    model: str,
    version: int | None,
    label: str | None,
    signature: str | None,
    n_best: int | None,
    outputs: tuple[str, ...],
    timeout: float,
) -> None:
    """Ask for TEXTS, or for each line of standard input."""
    signature = choose_signature(signature, n_best)
    inputs = signature_inputs(signature, texts, outputs)
    answer = predict(server, predict_request(model, version, label, signature, inputs), timeout)
    for line in answer_lines(signature, answer, n_best):
        click.echo(line)


if __name__ == "__main__":
    main()
