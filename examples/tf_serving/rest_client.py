"""Asks a model server over REST, with the standard library and click alone.

python examples/tf_serving/rest_client.py "27. jan. 2094"
python examples/tf_serving/rest_client.py --n-best 3 < dates.txt
"""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import click
from signatures import answer_lines, choose_signature, client_options, signature_inputs


def model_url(server: str, model: str, version: int | None, label: str | None) -> str:
    """Write the address of a model, of one of its versions, or of what a label stands for.

    Raises:
        click.UsageError: a version and a label are given.
    """
    if version is not None and label is not None:
        raise click.UsageError(f"--version and --label exclude each other. Received: {version} and {label}.")
    if version is None and label is None:
        target = ""
    else:
        target = f"/labels/{quote(label)}" if label is not None else f"/versions/{version}"
    return f"{server.rstrip('/')}/v1/models/{quote(model)}{target}"


def request_body(signature: str, inputs: Mapping[str, Sequence[bytes]]) -> bytes:
    """Write a request in the columnar format, which every signature takes."""
    columns = {name: [json_text(value) for value in values] for name, values in inputs.items()}
    return json.dumps({"signature_name": signature, "inputs": columns}).encode()


def json_text(value: bytes) -> str | dict[str, str]:
    """Write a text as JSON: as it is, or in base64 where it is no UTF-8."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}


def post(url: str, body: bytes, timeout: float) -> dict[str, Any]:
    """Send a request and read the JSON object that comes back.

    Raises:
        click.ClickException: the server is away, refuses, or is no model server.
    """
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return parse_answer(url, response.read())
    except urllib.error.HTTPError as error:
        message = error_message(error.read()) or error.reason
        raise click.ClickException(f"{url} refuses with status {error.code}: {message}") from error
    except TimeoutError as error:
        raise click.ClickException(f"{url} did not answer within {timeout:g} s.") from error
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            reason = f"no answer within {timeout:g} s"
        raise click.ClickException(f"Cannot reach {url}: {reason}.") from error


def parse_answer(url: str, content: bytes) -> dict[str, Any]:
    """Read the outputs from the body of an answer.

    Raises:
        click.ClickException: it is not what a model server answers.
    """
    try:
        outputs = json.loads(content)["outputs"]
    except (ValueError, KeyError, TypeError) as error:
        raise click.ClickException(f"{url} answers with no outputs: {content[:80]!r}") from error
    if not isinstance(outputs, dict):
        raise click.ClickException(f"{url} answers with outputs that have no names: {content[:80]!r}")
    return outputs


def error_message(content: bytes) -> str:
    """Read the message of `{"error": "..."}`, on one line; empty if it is something else."""
    try:
        return " ".join(str(json.loads(content)["error"]).split())
    except (ValueError, KeyError, TypeError):
        return ""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@client_options("http://localhost:8501")
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
    url = model_url(server, model, version, label) + ":predict"
    answer = post(url, request_body(signature, inputs), timeout)
    for line in answer_lines(signature, answer, n_best):
        click.echo(line)


if __name__ == "__main__":
    main()
