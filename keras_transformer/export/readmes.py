"""README of an exported directory: how to serve it and how to call it. The text is in `templates/`."""

import json
import re
import shlex
import urllib.parse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import jinja2
import numpy as np
import tensorflow as tf

from keras_transformer.export.verification import _needs_tensorflow_text
from keras_transformer.tasks import ModelTask
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS

# Latest image of the server; it has the operations of `operations.txt`.
_SERVER = "2.20.0"
_AXES = ("b", "s", "w")
_NUM_SHOWN = 3  # maximum number of frames or samples of a source in an example
_FIELDS = {"string": "string_val", "float32": "float_val", "int32": "int_val", "bool": "bool_val"}


def _fill_template(file: str, /, **values: object) -> str:
    """Render a template."""
    templates = jinja2.FileSystemLoader(Path(__file__).with_name("templates"), encoding="utf-8")
    environment = jinja2.Environment(
        loader=templates,
        autoescape=False,  # not HTML
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["python"] = repr
    environment.filters["quoted"] = partial(json.dumps, ensure_ascii=False)  # a string of Python
    # Within double quotes of a shell.
    environment.filters["escaped"] = partial(re.sub, r'([$`"\\])', r"\\\1")
    return environment.get_template(file).render(**values, request=_request)


def _saved_model_readme(
    task: ModelTask,
    name: str,
    version: int,
    optimize: str,
    threads: int | None,
    columns: dict[str, np.ndarray],
    files: Path,
    warmup_rows: Sequence[int],
) -> str:
    """Return the README of a version, from its files and the row counts of its warm-up requests.

    The template is that of the task. The examples use the first row of the request columns.
    """
    first = {column: [_as_json(values[0])] for column, values in columns.items()}
    requests = {
        name: {column: first[column] for column in task.specification(name).inputs}
        for name in task.signatures
    }
    served = task.specification("serving_default")
    row = {column: first[column][0] for column in served.inputs}
    kinds = ((f"`{key}`", dtype, ", ".join(_AXES[:rank])) for key, (dtype, rank) in served.inputs.items())
    num_bytes = sum(path.stat().st_size for path in files.rglob("*") if path.is_file())
    return _fill_template(
        task.readme_template,
        task=task,
        name=name,
        url_name=urllib.parse.quote(name),
        version=version,
        optimize=optimize,
        threads=threads,
        tensorflow=tf.__version__,
        server=_SERVER,
        setting=shlex.quote(f"MODEL_NAME={name}"),
        config_flag=shlex.quote(f"--model_config_file=/models/{name}/models.config"),
        inputs=", ".join(f"`{column}`" for column in served.inputs),
        typed_inputs="; ".join(f"{key}, {dtype} ({axes})" for key, dtype, axes in kinds),
        fields={output: _FIELDS[dtype] for output, (dtype, _) in served.outputs.items()},
        is_padded=any(rank > 1 for _, rank in served.inputs.values()),
        # An example request to each signature by column, and one row: the plain value for a single column.
        requests=requests,
        columns=requests["serving_default"],
        columns_of="n_best" if "n_best" in requests else "serving_default",
        row=row if len(row) > 1 else row[task.reader.column],
        megabytes=max(1, round(num_bytes / 1e6)),
        num_warmup=len(warmup_rows),
        most_rows=max(warmup_rows),
        needs_text=_needs_tensorflow_text(task),
    )


def _as_json(value: object) -> object:
    """Return a value of a column as JSON; for an array, only its first numbers."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value[:_NUM_SHOWN].tolist() if isinstance(value, np.ndarray) else np.asarray(value).item()


def _request(**body: object) -> str:
    """Return JSON for a quoted shell string, in which an apostrophe must be escaped."""
    return json.dumps(body, ensure_ascii=False).replace("'", "\\u0027")


def _ctranslate2_readme(name: str, max_source_length: int, max_target_length: int) -> str:
    """Return the README of a CTranslate2 model; the lengths include the end token."""
    banned = [
        SPECIAL_TOKENS[token_id] for token_id in (SPECIAL_IDS.pad, SPECIAL_IDS.unknown, SPECIAL_IDS.start)
    ]
    return _fill_template(
        "ctranslate2.md",
        name=name,
        banned=[[token] for token in banned],
        tokens=", ".join(f"`{token}`" for token in banned),
        max_source_length=max_source_length,
        max_target_length=max_target_length,
    )
