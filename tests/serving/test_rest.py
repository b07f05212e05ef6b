"""The double's REST interface: the answers and errors of the guide."""

import json
import urllib.request
from typing import Any

import pytest
from model_server_double.rest import respond


def ask(registry: Any, document: dict[str, Any], target: str = "toy") -> tuple[int, dict[str, Any]]:
    return respond(registry, "POST", f"/v1/models/{target}:predict", json.dumps(document).encode())


def test_the_highest_version_answers(toy_registry: Any) -> None:
    rows = [{"output": "AB", "score": -2.0}, {"output": "", "score": 0.0}]
    answer = {"predictions": [{**row, "is_cut": False} for row in rows]}
    assert ask(toy_registry, {"instances": ["ab", ""]}) == (200, answer)


def test_a_version_and_a_label_can_be_asked(toy_registry: Any) -> None:
    columns = {"outputs": {"output": ["AB?"], "score": [-2.0], "is_cut": [False]}}
    for target in ("toy/versions/1", "toy/labels/old"):
        assert ask(toy_registry, {"inputs": ["ab"]}, target) == (200, columns)


def test_other_signatures_answer(toy_registry: Any) -> None:
    document = {"signature_name": "n_best", "instances": ["aB"]}
    assert ask(toy_registry, document)[1] == {
        "predictions": [{"output": ["AB", "ab"], "score": [-2.0, -3.0]}]
    }
    document = {"signature_name": "raw", "instances": [{"b64": "/w=="}]}
    assert ask(toy_registry, document)[1] == {"predictions": [{"b64": "/w=="}]}


@pytest.mark.parametrize(
    ("target", "document", "status", "message"),
    [
        ("other", {"instances": ["a"]}, 404, "Servable not found for request: Latest(other)"),
        ("toy/versions/7", {"instances": ["a"]}, 404, "Servable not found for request: Specific(toy, 7)"),
        ("toy/labels/new", {"instances": ["a"]}, 400, "Unrecognized servable version label: new"),
        ("toy", {"signature_name": "x", "instances": ["a"]}, 400, 'Serving signature name: "x" not found'),
        ("toy", {}, 400, "Missing 'inputs' or 'instances' key"),
        (
            "toy",
            {"signature_name": "score", "inputs": {"text": ["a"], "output": []}},
            400,
            "assertion failed",
        ),
    ],
)
def test_errors(toy_registry: Any, target: str, document: dict[str, Any], status: int, message: str) -> None:
    received, answer = ask(toy_registry, document, target)
    assert received == status
    assert list(answer) == ["error"]
    assert message in answer["error"]


@pytest.mark.parametrize(
    "request_line", ["POST /v1/models/toy", "GET /v2", "PUT /v1/models/toy", "POST /v1/models/toy:guess"]
)
def test_other_requests_are_malformed(toy_registry: Any, request_line: str) -> None:
    method, path = request_line.split()
    assert respond(toy_registry, method, path, b"{}") == (
        400,
        {"error": f"Malformed request: {request_line}"},
    )


def test_status_lists_the_versions(toy_registry: Any) -> None:
    status, answer = respond(toy_registry, "GET", "/v1/models/toy", b"")
    assert status == 200
    assert sorted(entry["version"] for entry in answer["model_version_status"]) == ["1", "2"]
    first = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    assert respond(toy_registry, "GET", "/v1/models/toy/versions/1", b"")[1] == {
        "model_version_status": [first]
    }


def test_status_of_an_unknown_model(toy_registry: Any) -> None:
    wanted = (404, {"error": "Could not find any versions of model other"})
    assert respond(toy_registry, "GET", "/v1/models/other", b"") == wanted


def test_metadata_names_the_signatures(toy_registry: Any) -> None:
    _, answer = respond(toy_registry, "GET", "/v1/models/toy/metadata", b"")
    assert answer["model_spec"] == {"name": "toy", "signature_name": "", "version": "2"}
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert sorted(signatures) == ["align", "n_best", "raw", "score", "search", "serving_default"]
    assert signatures["score"]["inputs"]["output"]["dtype"] == "DT_STRING"


def test_it_answers_over_http(ports: Any) -> None:
    url = f"http://127.0.0.1:{ports.rest}/v1/models/toy:predict"
    with urllib.request.urlopen(url, b'{"instances": ["\\u00e4"]}', timeout=20) as response:
        assert response.headers["Content-Type"] == "application/json"
        assert json.loads(response.read())["predictions"][0]["score"] == -2.0
