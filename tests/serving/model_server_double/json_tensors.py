"""The REST JSON of the predict call: its row and columnar formats, to arrays and back.

See "RESTful API" in the guide of TensorFlow Serving.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from model_server_double.errors import ServerError

Arrays = dict[str, np.ndarray]


def parse_body(body: bytes) -> dict[str, Any]:
    """Read the JSON object that a request is."""
    if not body:
        raise ServerError("JSON Parse error: The document is empty")
    try:
        document = json.loads(body.decode("utf-8"))
    except ValueError as error:
        raise ServerError(f"JSON Parse error: {error}") from error
    if not isinstance(document, dict):
        raise ServerError(f"JSON Value: {json.dumps(document)} Is not object")
    if not isinstance(document.get("signature_name", ""), str):
        raise ServerError("JSON not formatted correctly. 'signature_name' key must be a string value.")
    return document


def request_arrays(document: Mapping[str, Any], dtypes: Mapping[str, tf.DType]) -> tuple[Arrays, bool]:
    """Turn a request into an array for each input, and say whether it has the row format."""
    if "instances" in document and "inputs" in document:
        raise ServerError(
            "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist"
        )
    if "instances" in document:
        columns = _columns(document["instances"], dtypes)
    elif "inputs" in document:
        columns = _named(document["inputs"], dtypes)
    else:
        raise ServerError("Missing 'inputs' or 'instances' key")
    return {name: _array(columns[name], dtype) for name, dtype in dtypes.items()}, "instances" in document


def response_body(outputs: Mapping[str, np.ndarray], *, is_row_format: bool) -> dict[str, Any]:
    """Turn outputs into the JSON of an answer; a single output goes without its name."""
    values = {name: _json_values(name, array) for name, array in sorted(outputs.items())}
    if not is_row_format:
        return {"outputs": values if len(values) > 1 else next(iter(values.values()))}
    if len({len(column) for column in values.values()}) > 1:
        raise ServerError(f"inconsistent batch size of {sorted(values)}")
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    return {"predictions": rows if len(values) > 1 else [next(iter(row.values())) for row in rows]}


def _columns(instances: Any, dtypes: Mapping[str, tf.DType]) -> dict[str, list[Any]]:
    """Collect each input of the rows; with one input its name may be left out."""
    if not isinstance(instances, list):
        raise ServerError("Excepting 'instances' to be an list/array")
    if not instances:
        raise ServerError("No values in 'instances' array")
    if not _is_named(instances[0]):
        if len(dtypes) > 1:
            raise ServerError("instances is a plain list, but expecting list of objects")
        instances = [{next(iter(dtypes)): value} for value in instances]
    for index, row in enumerate(instances):
        if not _is_named(row) or set(row) != set(dtypes):
            keys = ",".join(sorted(dtypes))
            raise ServerError(
                f"Failed to process element: {index} of 'instances' list. keys must be equal to: {keys}"
            )
    return {name: [row[name] for row in instances] for name in dtypes}


def _named(inputs: Any, dtypes: Mapping[str, tf.DType]) -> dict[str, Any]:
    if not _is_named(inputs):
        if len(dtypes) > 1:
            raise ServerError("inputs is a plain value/list, but expecting an object")
        return {next(iter(dtypes)): inputs}
    for name in dtypes:
        if name not in inputs:
            raise ServerError(f"Missing named input: {name} in 'inputs' object.")
    return inputs


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and set(value) != {"b64"}


def _array(value: Any, dtype: tf.DType) -> np.ndarray:
    try:
        leaves = np.asarray(_decoded(value), object)
        wanted = bytes if dtype == tf.string else (int, float)
        wrong = [leaf for leaf in leaves.ravel() if not isinstance(leaf, wanted)]
        if wrong:
            raise ServerError(f"JSON Value: {wrong[0]!r} is not of expected type: {dtype.name}")
        return leaves.astype(dtype.as_numpy_dtype)
    except (ValueError, binascii.Error) as error:
        raise ServerError(f"JSON Value: not formatted correctly: {error}") from error


def _decoded(value: Any) -> Any:
    """Make every string bytes, those in {"b64": ...} too."""
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if isinstance(value, dict) and set(value) == {"b64"}:
        return base64.b64decode(value["b64"], validate=True)
    return value.encode() if isinstance(value, str) else value


def _json_values(name: str, array: np.ndarray) -> Any:
    if array.dtype != object:
        return array.tolist()
    is_binary = name.endswith("_bytes")
    texts = [
        {"b64": base64.b64encode(item).decode()} if is_binary else item.decode() for item in array.ravel()
    ]
    leaves = np.empty(len(texts), object)
    leaves[:] = texts
    return leaves.reshape(array.shape).tolist()
