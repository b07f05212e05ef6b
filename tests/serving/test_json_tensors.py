"""The REST JSON of the guide, in both directions; every error that it names."""

import base64
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from model_server_double.errors import ServerError
from model_server_double.json_tensors import parse_body, request_arrays, response_body

ONE = {"text": tf.string}
TWO = {"text": tf.string, "size": tf.int32}


def strings(*values: bytes) -> np.ndarray:
    return np.array(values, object)


@pytest.mark.parametrize(
    "document",
    [
        {"instances": ["ä", {"b64": base64.b64encode(b"\xff\0").decode()}]},
        {"instances": [{"text": "ä"}, {"text": {"b64": "/wA="}}]},
        {"inputs": ["ä", {"b64": "/wA="}]},
        {"inputs": {"text": ["ä", {"b64": "/wA="}]}},
    ],
)
def test_one_input_in_every_form(document: dict[str, Any]) -> None:
    arrays, is_row_format = request_arrays(document, ONE)
    assert arrays["text"].tolist() == ["ä".encode(), b"\xff\0"]
    assert is_row_format == ("instances" in document)


def test_two_inputs_in_both_formats() -> None:
    rows, _ = request_arrays({"instances": [{"text": "a", "size": 1}, {"text": "b", "size": 2}]}, TWO)
    columns, _ = request_arrays({"inputs": {"text": ["a", "b"], "size": [1, 2]}}, TWO)
    assert rows["text"].tolist() == columns["text"].tolist() == [b"a", b"b"]
    assert rows["size"].tolist() == columns["size"].tolist() == [1, 2]


def test_several_outputs_are_objects() -> None:
    outputs = {"output": strings(b"x", b"y"), "score": np.array([0.5, -1.0], np.float32)}
    assert response_body(outputs, is_row_format=True) == {
        "predictions": [{"output": "x", "score": 0.5}, {"output": "y", "score": -1.0}]
    }
    assert response_body(outputs, is_row_format=False) == {
        "outputs": {"output": ["x", "y"], "score": [0.5, -1.0]}
    }


def test_a_single_output_goes_without_its_name() -> None:
    outputs = {"output": np.array([[b"x", b"y"]], object)}
    assert response_body(outputs, is_row_format=True) == {"predictions": [["x", "y"]]}
    assert response_body(outputs, is_row_format=False) == {"outputs": [["x", "y"]]}


def test_outputs_named_bytes_are_base64() -> None:
    assert response_body({"copy_bytes": strings(b"\xff\0")}, is_row_format=True) == {
        "predictions": [{"b64": "/wA="}]
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "JSON Parse error: The document is empty"),
        (b'{"instances": [', "JSON Parse error: Expecting value"),
        (b'{"instances": ["\xff"]}', "JSON Parse error: 'utf-8' codec"),
        (b'["a"]', r"JSON Value: \[\"a\"\] Is not object"),
        (b'{"signature_name": 3}', "'signature_name' key must be a string value"),
    ],
)
def test_bodies_that_are_no_request(body: bytes, message: str) -> None:
    with pytest.raises(ServerError, match=message):
        parse_body(body)


@pytest.mark.parametrize(
    ("document", "dtypes", "message"),
    [
        ({}, ONE, "Missing 'inputs' or 'instances' key"),
        ({"inputs": ["a"], "instances": ["a"]}, ONE, "expecting only one of"),
        ({"instances": "a"}, ONE, "Excepting 'instances' to be an list/array"),
        ({"instances": []}, ONE, "No values in 'instances' array"),
        ({"instances": [3]}, ONE, "JSON Value: 3 is not of expected type: string"),
        ({"instances": [{"b64": "?"}]}, ONE, "not formatted correctly"),
        ({"instances": ["a"]}, TWO, "instances is a plain list, but expecting list of objects"),
        ({"instances": [{"texts": "a"}]}, ONE, "element: 0 of 'instances' list. keys must be equal to: text"),
        ({"instances": [{"text": "a"}, "b"]}, ONE, "Failed to process element: 1"),
        ({"inputs": ["a"]}, TWO, "inputs is a plain value/list, but expecting an object"),
        ({"inputs": {"text": ["a"]}}, TWO, "Missing named input: size in 'inputs' object"),
    ],
)
def test_requests_that_do_not_fit(document: dict[str, Any], dtypes: dict[str, Any], message: str) -> None:
    with pytest.raises(ServerError, match=message) as caught:
        request_arrays(document, dtypes)
    assert caught.value.http_status == 400


def test_outputs_of_unequal_batches_have_no_rows() -> None:
    with pytest.raises(ServerError, match="inconsistent batch size"):
        response_body({"a": np.zeros(2), "b": np.zeros(3)}, is_row_format=True)
