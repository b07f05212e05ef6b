"""The README of an exported directory: how to serve it and how to ask it. Its text is in `templates/`."""

import json
import shlex
import urllib.parse
from pathlib import Path

import numpy as np

from keras_transformer.export.verification import _needs_tensorflow_text
from keras_transformer.tasks import ModelTask
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS, Value

_TEXT_IMPORT = "    import tensorflow_text  # registers the tokenizer's operations\n"
_NOTES = {
    "float32": "",
    "bfloat16": "\nMatrices are stored as bfloat16, in half the size, and computed with as float32.\n",
    "xla": """
The search is compiled by XLA, for sources padded to 16, 32, 64 and so on tokens and batches padded
to powers of two. The first request of each such size waits for the compiler; the warm-up requests are
examples of the usual ones. It takes no options, so there is no signature `search`.
""",
}
_DIVIDED = """
The sources of a request are divided among up to {threads} threads, each of which searches for its part. It is
for processors, not for GPUs. `--tensorflow_inter_op_parallelism` of the server should not be lower.
"""
_ALIGN = (
    "| `align` | `{input}` | `output`, `score`; `source_tokens`, string (b, s); "
    "`output_tokens`, string (b, t); `attention`, float32 (b, t, s) |\n"
)
_ENDS = "Tokens end with `[END]` and\nare padded with the empty string. "
_FLAGS = {"xla": " --xla_cpu_compilation_enabled"}
_AXES = ("b", "n", "m")


def _fill_template(file: str, /, **values: object) -> str:
    """Return a template with values in its braces."""
    text = Path(__file__).with_name("templates").joinpath(file).read_text(encoding="utf-8")
    return text.format(**values)


def _saved_model_readme(
    task: ModelTask,
    name: str,
    version: int,
    optimize: str,
    threads: int | None,
    source: Value,
    output: str,
) -> str:
    """Return the README of a version in Markdown, with one source and its output as the example."""
    kind, example = task.source, _as_json(source)
    options = {option: [value] for option, value in task.default_options.items()}
    known: dict[str, object] = {
        "name": name,
        "url_name": urllib.parse.quote(name),
        "version": version,
        "input": kind.name,
        "input_type": f"{kind.dtype} ({', '.join(_AXES[: kind.rank])})",
        "max_target_length": task.max_target_length,
        "num_outputs": task.num_outputs,
    }
    asked = _request(signature_name="search", inputs={kind.name: [example], **options})
    has_alignment = "align" in task.signatures
    return _fill_template(
        "saved_model.md",
        **known,
        setting=shlex.quote(f"MODEL_NAME={name}"),
        config_flag=shlex.quote(f"--model_config_file=/models/{name}/models.config"),
        note=_NOTES[optimize] + ("" if threads is None else _DIVIDED.format(threads=threads)),
        about_input=kind.about,
        about_outputs=task.about_outputs,
        align=_ALIGN.format(**known) if has_alignment else "",
        ends=_ENDS if has_alignment else "",
        outputs="strings, scores and alignments" if has_alignment else "strings and scores",
        search="" if optimize == "xla" else _fill_template("search.md", **known, options=asked),
        num_scored=task.max_target_length - 1,
        rows=_request(instances=[example]),
        columns=_request(signature_name="n_best", inputs={kind.name: [example]}),
        pairs=_request(signature_name="score", instances=[{kind.name: example, "output": output}]),
        example=example,
        flags=_FLAGS.get(optimize, ""),
        text_import=_TEXT_IMPORT if _needs_tensorflow_text(task) else "",
    )


def _as_json(source: Value) -> object:
    """Return a source as a request holds it, of an array the first numbers."""
    return source[:3].tolist() if isinstance(source, np.ndarray) else source


def _request(**body: object) -> str:
    """Return JSON that a shell leaves alone: an apostrophe would end its quoted string."""
    return json.dumps(body, ensure_ascii=False).replace("'", "\\u0027")


def _ctranslate2_readme(name: str, max_source_length: int, max_target_length: int) -> str:
    """Return the README of a CTranslate2 model; the lengths count the end token."""
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
