"""Asks a model server over REST, with the standard library and click alone.

python examples/tf_serving/rest_client.py "27. jan. 2094"
python examples/tf_serving/rest_client.py --n-best 3 < dates.txt
"""

import base64
import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

import click
from signatures import Inputs, Outputs, Target, client_command


def model_url(target: Target) -> str:
    """Write the address of a model, of one of its versions, or of what a label stands for."""
    url = f"{target.server.rstrip('/')}/v1/models/{quote(target.model)}"
    if target.label is not None:
        return f"{url}/labels/{quote(target.label)}"
    return url if target.version is None else f"{url}/versions/{target.version}"


def request_body(signature: str, inputs: Inputs) -> bytes:
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


def ask(target: Target, signature: str, inputs: Inputs) -> Outputs:
    """Ask a signature."""
    return post(model_url(target) + ":predict", request_body(signature, inputs), target.timeout)


main = client_command("http://localhost:8501", ask)

if __name__ == "__main__":
    main()
