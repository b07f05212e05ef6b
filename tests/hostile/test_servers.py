"""Servers that are none, are slow, or send what no model server sends: one line, in time."""

import contextlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from click.testing import CliRunner, Result
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
from typing_extensions import override

sys.path.append(str(Path(__file__).parents[2] / "examples" / "tf_serving"))
import grpc_client
import rest_client
import signatures

CLIENTS = {"rest": rest_client.main, "grpc": grpc_client.main}
Behave = Callable[[socket.socket], None]


def run(client: str, *words: str) -> Result:
    return CliRunner().invoke(CLIENTS[client], [*words, "text"])


def line(finished: Result) -> str:
    """Return the one line that a client refuses with."""
    assert finished.exit_code != 0
    assert isinstance(finished.exception, SystemExit), finished.exception
    assert finished.stdout == ""
    last = finished.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    assert "\x1b" not in last
    return last


def receive(connection: socket.socket) -> bytes:
    """Read a whole request: to close a connection before that resets it."""
    connection.settimeout(10)
    content = b""
    while not content.startswith(b"PRI "):  # as gRPC begins, which has no end
        found = re.search(rb"content-length: (\d+)\r\n.*?\r\n\r\n(.*)", content, re.IGNORECASE | re.DOTALL)
        if found is not None and len(found[2]) >= int(found[1]):
            break
        part = connection.recv(1 << 16)
        if not part:
            break
        content += part
    return content


@contextlib.contextmanager
def behaving(behave: Behave) -> Iterator[int]:
    """Listen on a port, and do something with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, contextlib.suppress(OSError):
                        receive(connection)
                        behave(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        # Else the thread waits on, and takes a connection of the next server, whose socket has its number.
        listening.shutdown(socket.SHUT_RDWR)


def saying(*parts: bytes) -> Behave:
    return lambda connection: [connection.sendall(part) for part in parts] and None


def dripping(beginning: bytes) -> Behave:
    """Send a byte now and then, so that no single read takes long."""

    def drip(connection: socket.socket) -> None:
        connection.sendall(beginning)
        while True:
            time.sleep(0.05)
            connection.sendall(b" ")

    return drip


OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("beginning", [b"HTTP/1.1 200 OK\r\nX:", OK, b""])
def test_the_deadline_is_that_of_the_whole_answer(beginning: bytes) -> None:
    start = time.monotonic()
    with behaving(dripping(beginning)) as port:
        finished = run("rest", "--server", f"http://127.0.0.1:{port}", "--timeout", "0.5")
    assert line(finished).endswith("did not answer within 0.5 s.")
    assert time.monotonic() - start < 5


def test_an_answer_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_client, "MAX_ANSWER_BYTES", 10_000)
    with behaving(saying(OK, b" " * 100_000)) as port:
        finished = run("rest", "--server", f"http://127.0.0.1:{port}")
    assert line(finished).endswith("answers with more than 10000 bytes.")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"\xff\x00 garbage\r\n\r\n", "does not speak HTTP"),
        (b"", "does not speak HTTP"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", "refuses with status 302"),
        (b'HTTP/1.1 400 Bad\r\n\r\n{"error": "\\u001b]0;title\\u0007 bad"}', "\\x1b]0;title\\x07 bad"),
        (b"HTTP/1.1 500 No\r\n\r\n" + b"[" * 100_000, "refuses with status 500"),
        (OK + b"<html>", "answers with no outputs"),
        (OK + b"[" * 100_000, "answers with no outputs"),
        (OK + b'{"outputs": [1]}', "answers with outputs that have no names"),
        (OK + b'{"outputs": {"output": 5, "score": 3}}', "The outputs are not those of serving_default"),
        (OK + b'{"outputs": {"output": ["a"], "score": ["x"]}}', "The outputs are not those"),
        (OK + b'{"outputs": {"output": [1], "score": [1.0]}}', "The outputs are not those"),
        (OK + b'{"outputs": {"output": ["a", "b"], "score": [1.0]}}', "The outputs are not those"),
        (OK + b'{"outputs": {"output": ["a"]}}', "The outputs are not those"),
    ],
)
def test_what_no_model_server_answers(answer: bytes, expected: str) -> None:
    with behaving(saying(answer)) as port:
        finished = run("rest", "--server", f"http://127.0.0.1:{port}", "--timeout", "10")
    assert expected in line(finished)


def test_garbage_in_place_of_grpc() -> None:
    with behaving(saying(OK + b"<html>")) as port:
        finished = run("grpc", "--server", f"127.0.0.1:{port}", "--timeout", "2")
    assert f"127.0.0.1:{port}" in line(finished)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("seconds", ["inf", "nan", "0", "-1", "1e300"])
def test_a_time_that_no_clock_reaches(client: str, seconds: str) -> None:
    finished = run(client, "--timeout", seconds)
    assert finished.exit_code == 2
    assert "'--timeout': must be above 0 and at most 86400. Received: " in line(finished)


class _Answers(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Gives one answer to every question, and keeps what came with it."""

    def __init__(self, answer: predict_pb2.PredictResponse) -> None:
        self.answer, self.metadata = answer, {}

    @override
    def Predict(self, request: Any, context: Any) -> predict_pb2.PredictResponse:
        self.metadata = dict(context.invocation_metadata())
        return self.answer


@contextlib.contextmanager
def answering(answers: _Answers, credentials: Any = None) -> Iterator[int]:
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(answers, server)
    address = "localhost:0"
    add = server.add_insecure_port if credentials is None else server.add_secure_port
    port = add(address) if credentials is None else add(address, credentials)
    server.start()
    yield port
    server.stop(grace=None).wait()


def response(num_texts: int, text: bytes = b"A", *, is_whole: bool = True) -> predict_pb2.PredictResponse:
    """Make an answer whose tensors say that they have so many texts."""
    answer = predict_pb2.PredictResponse()
    output, score = answer.outputs["output"], answer.outputs["score"]
    output.dtype, score.dtype = 7 if is_whole else 99, 1
    output.string_val.append(text)
    score.float_val.append(-1.0)
    for tensor in (output, score):
        tensor.tensor_shape.dim.add().size = num_texts
    return answer


@pytest.mark.parametrize("answer", [response(10**12), response(-5), response(1, is_whole=False)])
def test_tensors_that_are_none(answer: predict_pb2.PredictResponse) -> None:
    with answering(_Answers(answer)) as port:
        finished = run("grpc", "--server", f"localhost:{port}", "--timeout", "20")
    assert "did not answer with a tensor" in line(finished)


def test_control_characters_reach_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"score": [-1.0], "output": ["\x1b[31mred\x07\ttab\x9b\nline"]}
    assert list(signatures.answer_lines("serving_default", answer)) == [
        "-1.000\t\x1b[31mred\x07\ttab\x9b line"
    ]
    monkeypatch.setattr(signatures, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    assert list(signatures.answer_lines("serving_default", answer)) == [
        r"-1.000" + "\t" + r"\x1b[31mred\x07\x09tab\x9b line"
    ]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--token", "secret"), "--token would be of no use, or seen by all, without --tls"),
        (("--tls", "--key", __file__), "--certificate and --key belong together"),
        (("--ca-certificate", __file__), "--ca-certificate would be of no use"),
    ],
)
def test_a_secret_goes_over_tls_alone(client: str, words: tuple[str, ...], expected: str) -> None:
    finished = run(client, *words)
    assert expected in line(finished)
    assert "secret" not in finished.output


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of localhost that signs for itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl to make a certificate")
    directory = tmp_path_factory.mktemp("certificate")
    signed, key = directory / "certificate.pem", directory / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(key), "-out", str(signed)]
    subprocess.run(command, check=True, capture_output=True)
    return signed, key


def test_grpc_over_tls_with_a_token(certificate: tuple[Path, Path]) -> None:
    signed, key = certificate
    answers = _Answers(response(1))
    credentials = grpc.ssl_server_credentials([(key.read_bytes(), signed.read_bytes())])
    with answering(answers, credentials) as port:
        words = ("--server", f"localhost:{port}", "--tls", "--timeout", "20")
        known = run("grpc", *words, "--ca-certificate", str(signed), "--token", "secret")
        unknown = run("grpc", *words)
    assert (known.exit_code, known.stdout) == (0, "-1.000\tA\n"), known.output
    assert answers.metadata["authorization"] == "Bearer secret"
    assert "Cannot reach" in line(unknown)


def test_rest_over_tls_with_a_token(certificate: tuple[Path, Path]) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    requests: list[bytes] = []

    def serve(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with (
                    contextlib.suppress(OSError),
                    context.wrap_socket(connection, server_side=True) as secure,
                ):
                    requests.append(receive(secure))
                    secure.sendall(OK + b'{"outputs": {"output": ["A"], "score": [-1.0]}}')

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        server = f"https://localhost:{listening.getsockname()[1]}"
        words = ("--server", server, "--timeout", "20")
        known = run("rest", *words, "--ca-certificate", str(certificate[0]), "--token", "secret")
        unknown = run("rest", *words)
    assert (known.exit_code, known.stdout) == (0, "-1.000\tA\n"), known.output
    assert b"\r\nAuthorization: Bearer secret\r\n" in requests[0]
    assert "certificate verify failed" in line(unknown)
