"""The REST interface of the double, as a WSGI application."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf import json_format
from tensorflow_serving.apis import get_model_status_pb2

from model_server_double.errors import ServerError
from model_server_double.json_tensors import parse_body, request_arrays, response_body
from model_server_double.registry import Registry

_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

Target = dict[str, Any]
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def rest_application(registry: Registry) -> Application:
    """Make the WSGI application that answers for the models of a registry."""

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        status, answer = respond(registry, environ["REQUEST_METHOD"], environ["PATH_INFO"], body)
        content = json.dumps(answer, indent=4, ensure_ascii=False).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
        start_response(f"{status} {_REASONS[status]}", headers)
        return [content]

    return application


def respond(registry: Registry, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
    """Answer a request with an HTTP status and a JSON object."""
    try:
        return 200, _route(registry, method, path, body)
    except ServerError as error:
        return error.http_status, {"error": str(error)}


def _route(registry: Registry, method: str, path: str, body: bytes) -> dict[str, Any]:
    if method == "POST" and (target := _target(path, ":predict")):
        return _predict(registry, target, body)
    if method == "GET" and (target := _target(path, "/metadata")):
        return _metadata(registry, target)
    if method == "GET" and (target := _target(path, "")):
        return _status(registry, target)
    raise ServerError(f"Malformed request: {method} {path}")


def _target(path: str, end: str) -> Target | None:
    match = re.fullmatch(_MODEL + end, path)
    if match is None:
        return None
    version = match["version"]
    return {"name": match["name"], "version": version and int(version), "label": match["label"] or ""}


def _predict(registry: Registry, target: Target, body: bytes) -> dict[str, Any]:
    document = parse_body(body)
    signature_name = document.get("signature_name", "")
    _, served = registry.find(**target)
    arrays, is_row_format = request_arrays(document, served.input_dtypes(signature_name))
    return response_body(served.predict(signature_name, arrays), is_row_format=is_row_format)


def _status(registry: Registry, target: Target) -> dict[str, Any]:
    if not registry.versions.get(target["name"]):
        raise ServerError(f"Could not find any versions of model {target['name']}", "NOT_FOUND")
    asks_for_one = target["version"] is not None or target["label"]
    versions = [registry.find(**target)[0]] if asks_for_one else sorted(registry.versions[target["name"]])
    response = get_model_status_pb2.GetModelStatusResponse()
    for version in versions:
        entry = response.model_version_status.add(version=version, state="AVAILABLE")
        entry.status.SetInParent()
    return json_format.MessageToDict(
        response, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _metadata(registry: Registry, target: Target) -> dict[str, Any]:
    version, served = registry.find(**target)
    signatures = {
        name: json_format.MessageToDict(signature, preserving_proto_field_name=True)
        for name, signature in served.signature_defs.items()
    }
    return {
        "model_spec": {"name": target["name"], "signature_name": "", "version": str(version)},
        "metadata": {"signature_def": {"signature_def": signatures}},
    }
