"""Asks a model server over REST, with the standard library and click alone.

python examples/tf_serving/rest_client.py "27. jan. 2094"
python examples/tf_serving/rest_client.py --n-best 3 < dates.txt
"""

import base64
import http.client
import json
import queue
import ssl
import threading
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

import click
from signatures import MAX_ANSWER_BYTES, Inputs, Outputs, Target, client_command

# More than the words of an error need.
MAX_ERROR_BYTES = 2**16


def model_url(target: Target) -> str:
    """Write the address of a model, of one of its versions, or of what a label stands for.

    Raises:
        click.UsageError: the server is no address of HTTP.
    """
    scheme = "https://" if target.tls else "http://"
    if not target.server.startswith(scheme):
        raise click.UsageError(
            f"--server must begin with {scheme}, such as {scheme}localhost:8501. Received: {target.server}."
        )
    url = f"{target.server.rstrip('/')}/v1/models/{quote(target.model)}"
    if target.label is not None:
        return f"{url}/labels/{quote(target.label)}"
    return url if target.version is None else f"{url}/versions/{target.version}"


def request_body(signature: str, inputs: Inputs) -> bytes:
    """Write a request in the columnar format, which every signature takes."""
    columns = {name: [json_value(value) for value in values] for name, values in inputs.items()}
    return json.dumps({"signature_name": signature, "inputs": columns}).encode()


def json_value(value: bytes | float) -> str | float | dict[str, str]:
    """Write a number or a text as JSON: as it is, or in base64 where it is no UTF-8."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no server to another, which would be sent the token, and not the question."""

    def redirect_request(self, *arguments: Any) -> None:
        """Leave the redirection to be an error."""


def make_opener(target: Target) -> urllib.request.OpenerDirector:
    """Make what opens a URL, with the certificates that are named."""
    context = ssl.create_default_context(cafile=target.ca_certificate)
    if target.certificate is not None:
        context.load_cert_chain(target.certificate, target.key)
    return urllib.request.build_opener(NoRedirect, urllib.request.HTTPSHandler(context=context))


def post(target: Target, url: str, body: bytes) -> dict[str, Any]:
    """Send a request and read the JSON object that comes back.

    Raises:
        click.ClickException: the server is away, refuses, or is no model server.
    """
    received: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()

    def ask_and_put() -> None:
        try:
            received.put(read_answer(target, url, body))
        except (OSError, ValueError, OverflowError, http.client.HTTPException) as error:
            received.put(error)

    # The timeout of a socket begins again with each byte, so that a slow server is waited for without an end.
    threading.Thread(target=ask_and_put, daemon=True).start()
    try:
        answer = received.get(timeout=target.timeout)
    except queue.Empty:
        answer = TimeoutError()
    if isinstance(answer, Exception):
        raise click.ClickException(describe(answer, url, target.timeout)) from answer
    return parse_answer(url, answer)


def read_answer(target: Target, url: str, body: bytes) -> bytes:
    """Send a request and read the bytes that come back, not more than an answer has."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **target.headers()})
    with make_opener(target).open(request, timeout=target.timeout) as response:
        content: bytes = response.read(MAX_ANSWER_BYTES + 1)
    if len(content) > MAX_ANSWER_BYTES:
        raise OverflowError
    return content


def describe(error: Exception, url: str, timeout: float) -> str:
    """Say in one line what went wrong."""
    reason = getattr(error, "reason", error)
    if isinstance(error, urllib.error.HTTPError):
        return f"{url} refuses with status {error.code}: {error_message(error) or error.reason}"
    if isinstance(reason, TimeoutError):
        return f"{url} did not answer within {timeout:g} s."
    if isinstance(error, OverflowError):
        return f"{url} answers with more than {MAX_ANSWER_BYTES} bytes."
    if isinstance(error, http.client.HTTPException):
        return f"{url} does not speak HTTP: {type(error).__name__} {str(error)[:80]!r}."
    return f"Cannot reach {url}: {reason}."


def parse_answer(url: str, content: bytes) -> dict[str, Any]:
    """Read the outputs from the body of an answer.

    Raises:
        click.ClickException: it is not what a model server answers.
    """
    try:
        outputs = json.loads(content)["outputs"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise click.ClickException(f"{url} answers with no outputs: {content[:80]!r}") from error
    if not isinstance(outputs, dict):
        raise click.ClickException(f"{url} answers with outputs that have no names: {content[:80]!r}")
    return outputs


def error_message(error: urllib.error.HTTPError) -> str:
    """Read the message of `{"error": "..."}`, on one line; empty if it is something else."""
    try:
        with error:
            return " ".join(str(json.loads(error.read(MAX_ERROR_BYTES))["error"]).split())
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError):
        return ""


def ask(target: Target, signature: str, inputs: Inputs) -> Outputs:
    """Ask a signature."""
    return post(target, model_url(target) + ":predict", request_body(signature, inputs))


main = client_command("http://localhost:8501", ask)

if __name__ == "__main__":
    main()
