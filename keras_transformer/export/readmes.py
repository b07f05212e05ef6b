"""The README of an exported directory: how to serve it and how to ask it. Its text is in `templates/`."""

import json
import shlex
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_transformer.export.verification import _needs_tensorflow_text
from keras_transformer.tasks import ModelTask
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS, Value

# The newest image of the server; it has the operations of `operations.txt`.
_SERVER = "2.20.0"
_TEXT_IMPORT = "    import tensorflow_text  # registers the tokenizer's operations\n"
_NOTES = {
    "float32": "",
    "bfloat16": "\nMatrices are stored as bfloat16, in half the size, and computed with as float32.\n",
    "xla": """
The search is compiled by XLA, for sources padded to 16, 32, 64 and so on tokens and batches padded
to powers of two. The first request of each such size waits for the compiler; the warm-up requests have
batches of up to {most_rows} rows, of the lengths of the examples. It takes no options, so there is no
signature `search`.
""",
}
_DIVIDED = """
The sources of a request are divided among up to {threads} threads, each of which searches for its part. It is
for processors, not for GPUs. `--tensorflow_inter_op_parallelism` of the server should not be lower.
"""
_ALIGN = (
    "| `align` | `{input}` | `output`, `score`, `is_cut`; `source_tokens`, string (b, s); "
    "`output_tokens`, string (b, t); `attention`, float32 (b, t, s) |\n"
)
_ENDS = "Tokens end with `[END]` and\nare padded with the empty string. "
_SPLIT_ALIGN = (
    "- Ask `align` for one row at a time where the server splits: it joins the parts without a look at\n"
    "  their widths, which differ.\n"
)
_UNEQUAL = (
    "- Requests of different lengths are not joined. `pad_variable_length_inputs` would fill them up with\n"
    "  their first number: let clients fill up all to one length, with zeros.\n"
)
_SEED = "; `seed`, int32, from 0"
_ABOUT_SEED = (
    " The search samples: each `seed` gives other outputs, and\n"
    "the same ones each time. The other signatures answer as with the seed 0."
)
_COMPILATIONS = "; the first of each size takes seconds, for the compiler"
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
    shown: tuple[Value, str],
    files: Path,
    warmup_rows: Sequence[int],
) -> str:
    """Return the README of a version in Markdown: of a directory, with the rows of each warm-up request."""
    kind, (source, output) = task.source, shown
    example = _as_json(source)
    options = {option: [value] for option, value in task.default_options.items()}
    known: dict[str, object] = {
        "name": name,
        "url_name": urllib.parse.quote(name),
        "version": version,
        "input": kind.name,
        "input_type": f"{kind.dtype} ({', '.join(_AXES[: kind.rank])})",
        "max_target_length": task.max_target_length,
        "num_outputs": task.num_outputs,
        "most_rows": max(warmup_rows),
        "seed": _SEED if task.takes_seed else "",
        "about_seed": _ABOUT_SEED if task.takes_seed else "",
    }
    num_bytes = sum(path.stat().st_size for path in files.rglob("*") if path.is_file())
    unit = "tokens" if kind.input_spec[1] == "int32" else "frames"
    asked = _request(signature_name="search", inputs={kind.name: [example], **options})
    has_alignment = "align" in task.signatures
    return _fill_template(
        "saved_model.md",
        **known,
        setting=shlex.quote(f"MODEL_NAME={name}"),
        config_flag=shlex.quote(f"--model_config_file=/models/{name}/models.config"),
        server=_SERVER,
        tensorflow=tf.__version__,
        note=_NOTES[optimize].format(**known) + ("" if threads is None else _DIVIDED.format(threads=threads)),
        about_input=kind.about,
        limit=f"A source is read up to {task.max_source_length} {unit}, the end included.",
        about_outputs=task.about_outputs,
        unequal=_UNEQUAL if kind.rank > 1 else "",
        split_align=_SPLIT_ALIGN if has_alignment else "",
        megabytes=max(1, round(num_bytes / 1e6)),
        num_warmup=len(warmup_rows),
        compilations=_COMPILATIONS if optimize == "xla" else "",
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
