"""Both clients of examples/tf_serving, asked as a person does, against the test double of the server."""

import functools
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc_client
import pytest
import rest_client
from click.testing import CliRunner, Result

EXAMPLES = Path(__file__).parents[2] / "examples" / "tf_serving"
CLIENTS = {"rest": rest_client.main, "grpc": grpc_client.main}
Ask = Callable[..., Result]


def run(client: str, *arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(CLIENTS[client], arguments, input=stdin)


@pytest.fixture(params=["rest", "grpc"])
def ask(request: pytest.FixtureRequest, ports: Any) -> Ask:
    """Run one of the clients on the model `toy`."""
    server = f"http://127.0.0.1:{ports.rest}" if request.param == "rest" else f"127.0.0.1:{ports.grpc}"
    return functools.partial(run, request.param, "--server", server, "--model", "toy")


def answer(finished: Result) -> list[str]:
    assert finished.exit_code == 0, finished.stderr
    return finished.stdout.splitlines()


def error(finished: Result) -> str:
    assert finished.exit_code != 0
    assert finished.stdout == ""
    return finished.stderr.splitlines()[-1]


def test_texts_and_lines(ask: Ask) -> None:
    assert answer(ask("ab", "", "ñ€")) == ["-2.000\tAB", "-0.000\t", "-5.000\tñ€"]
    assert answer(ask(stdin=b"ab\r\n\n")) == ["-2.000\tAB", "-0.000\t"]


def test_bytes_that_are_no_utf8_arrive(ask: Ask) -> None:
    # Python gives such arguments with lone surrogates in them.
    assert answer(ask("--signature", "score", "\udcff", "--output", "\udcff\udcfe")) == ["-1.000\t2"]


def test_signatures(ask: Ask) -> None:
    two = ask("--signature", "n_best", "aB", "c")
    assert answer(two) == ["1\t-2.000\tAB", "2\t-3.000\tab", "", "1\t-1.000\tC", "2\t-2.000\tc"]
    assert answer(ask("--signature", "n_best", "", "c"))[:3] == ["1\t-0.000\t", "", "1\t-1.000\tC"]
    assert answer(ask("--n-best", "1", "aB")) == ["1\t-2.000\tAB"]
    assert answer(ask("--signature", "align", "ab", "c")) == ["A\ta\t1.00", "B\tb\t1.00", "", "C\tc\t1.00"]
    assert answer(ask("--signature", "score", "a", "--output", "xyz")) == ["-1.500\t3"]


def test_options_of_a_search(ask: Ask) -> None:
    options = "--max-length", "2", "--length-penalty", "0.5", "--n-best", "1"
    assert answer(ask(*options, "aBc", "d")) == ["1\t-2.500\tAB", "", "1\t-1.500\tD"]
    assert "Received: --signature align." in error(ask("a", "--max-length", "2", "--signature", "align"))


def test_options_left_out_are_those_of_the_model(ask: Ask) -> None:
    assert answer(ask("--max-length", "2", "aBc")) == ["1\t-2.000\tAB", "2\t-3.000\tab"]
    assert answer(ask("--signature", "search", "--n-best", "1", "aB", "c"))[-1] == "1\t-1.000\tC"


@pytest.fixture(params=["rest", "grpc"])
def ask_batching(request: pytest.FixtureRequest, batching_ports: Any) -> Ask:
    """Run one of the clients on the model `toy`, behind the batching of the example's file."""
    ports = batching_ports
    server = f"http://127.0.0.1:{ports.rest}" if request.param == "rest" else f"127.0.0.1:{ports.grpc}"
    return functools.partial(run, request.param, "--server", server, "--model", "toy")


@pytest.mark.parametrize("words", [(), ("--batch-size", "100"), ("--batch-size", "7")])
def test_a_file_of_more_lines_than_a_batch(ask_batching: Ask, words: tuple[str, ...]) -> None:
    lines = [f"line {number}" for number in range(100)]
    found = answer(ask_batching(*words, stdin="\n".join(lines).encode()))
    assert [line.split("\t")[1] for line in found] == [line.upper() for line in lines]


def test_options_for_two_texts_hold_with_batching(ask_batching: Ask) -> None:
    # The server fills in one row for what is left out, and refuses two texts beside it.
    assert answer(ask_batching("--max-length", "2", "aBc", "d"))[::3] == ["1\t-2.000\tAB", "1\t-1.000\tD"]


def test_alignments_are_asked_one_by_one(ask_batching: Ask) -> None:
    texts = [*"ab" * 20, "abc"]
    found = "\n".join(answer(ask_batching("--signature", "align", *texts))).split("\n\n")
    assert found[:2] == ["A\ta\t1.00", "B\tb\t1.00"]
    assert found[-1] == "A\ta\t1.00\nB\tb\t1.00\nC\tc\t1.00"


def test_no_texts_are_no_request(ask_batching: Ask) -> None:
    # Which would wait until another one comes.
    assert answer(ask_batching("--timeout", "5", stdin=b"")) == []


def test_texts_that_were_cut_are_counted(ask: Ask) -> None:
    finished = ask("ab", "a" * 30)
    assert len(answer(finished)) == 2
    assert finished.stderr == "1 of 2 texts were cut off.\n"


def test_versions(ask: Ask) -> None:
    assert answer(ask("--version", "1", "a")) == answer(ask("--label", "old", "a")) == ["-1.000\tA?"]
    assert "Servable not found for request: Specific(toy, 9)" in error(ask("--version", "9", "a"))


def test_wrong_arguments(ask: Ask) -> None:
    both = ask("--version", "1", "--label", "old", "a")
    assert error(both) == "Error: --version and --label exclude each other. Received: 1 and old."
    lacking = ask("--signature", "score", "a")
    assert error(lacking) == "Error: score needs an --output for each of 1 texts. Received: 0."
    assert "Received: --signature serving_default." in error(ask("a", "--output", "b"))
    assert "--n-best needs the signature n_best. Received: --signature align." in error(
        ask("a", "--n-best", "2", "--signature", "align")
    )
    assert {both.exit_code, lacking.exit_code} == {2}
    assert "'guess' is not one of" in error(ask("a", "--signature", "guess"))


@pytest.fixture
def silent_server() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_a_server_that_is_away(unused_port: int) -> None:
    finished = run("rest", "--server", f"http://127.0.0.1:{unused_port}", "a")
    assert error(finished).startswith(
        f"Error: Cannot reach http://127.0.0.1:{unused_port}/v1/models/dates:predict"
    )
    finished = run("grpc", "--server", f"127.0.0.1:{unused_port}", "a")
    assert error(finished).startswith(f"Error: Cannot reach 127.0.0.1:{unused_port}: ")
    assert finished.exit_code == 1


def test_a_server_that_says_nothing(silent_server: int) -> None:
    rest = run("rest", "--server", f"http://127.0.0.1:{silent_server}", "--timeout", "0.2", "a")
    assert error(rest).endswith(":predict did not answer within 0.2 s.")
    rpc = run("grpc", "--server", f"127.0.0.1:{silent_server}", "--timeout", "0.2", "a")
    assert error(rpc) == f"Error: 127.0.0.1:{silent_server} did not answer within 0.2 s."


@pytest.mark.parametrize("server", ["localhost:1", "file:///etc/passwd", "ftp://localhost"])
def test_an_address_that_is_none(server: str) -> None:
    line = f"Error: --server must begin with http://, such as http://localhost:8501. Received: {server}."
    assert error(run("rest", "--server", server, "a")) == line


@pytest.fixture
def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@pytest.mark.parametrize("client", ["rest", "grpc"])
def test_each_client_is_a_program(client: str) -> None:
    # A reader's Python finds the file beside the client; the variable of tests/conftest.py would hide it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    command = [sys.executable, str(EXAMPLES / f"{client}_client.py"), "--help"]
    finished = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert finished.stdout.startswith(b"Usage: ")
    assert finished.stderr == b""
