"""The README of an exported directory: how to serve it and how to ask it. Its text is in `templates/`."""

import json
import shlex
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.decoding.text_generator import TextGenerator
from keras_transformer.decoding.translator import Translator
from keras_transformer.export.serving_graphs import _default_options
from keras_transformer.types import AUDIO, SPECIAL_IDS, SPECIAL_TOKENS, Source

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
_TRANSLATION = {
    "outputs": "strings, scores and alignments",
    "align": "| `align` | `text` | `output`, `score`; `source_tokens`, string (b, s); "
    "`output_tokens`, string (b, t); `attention`, float32 (b, t, s) |\n",
    "scored": "A score is a log-probability, divided by the length penalty of the search.",
    "empty": "An empty text has an empty output and the score 0.",
    "ends": "Tokens end with `[END]` and\nare padded with the empty string. ",
    "example_of_few": ", as for an empty\ntext",
}
_GENERATION = {
    "outputs": "strings and scores",
    "align": "",
    "scored": "A text is a prompt, which its output begins with; an empty prompt asks for a text\n"
    "from its beginning. A score is the log-probability of what follows the prompt, divided by the length\n"
    "penalty of the search. `num_tokens` counts what follows the prompt.",
    "empty": "",
    "ends": "",
    "example_of_few": "",
}
_FLAGS = {"xla": " --xla_cpu_compilation_enabled"}


def _template(file: str, /, **values: object) -> str:
    """Return a template with values in its braces."""
    text = Path(__file__).with_name("templates").joinpath(file).read_text(encoding="utf-8")
    return text.format(**values)


def _saved_model_readme(
    translator: Translator | TextGenerator,
    name: str,
    version: int,
    optimize: str,
    threads: int | None,
    examples: Sequence[tuple[Source, str]],
) -> str:
    """Return the README of a version in Markdown; the first example, a source and its output, is shown."""
    told: dict[str, object] = {
        "name": name,
        "setting": shlex.quote(f"MODEL_NAME={name}"),
        "config_flag": shlex.quote(f"--model_config_file=/models/{name}/models.config"),
        "url_name": urllib.parse.quote(name),
        "version": version,
        "max_target_length": translator.max_target_length,
        "num_outputs": translator.search.num_outputs,
        "note": _NOTES[optimize] + ("" if threads is None else _DIVIDED.format(threads=threads)),
    }
    if translator.reads == AUDIO:
        seconds = translator.source_tokenizer.seconds
        return _template("speech.md", **told, seconds=seconds, rows=_request(instances=[[0.0, 0.25, -0.25]]))
    text, output = examples[0]
    inputs = {"text": [text], **{option: [value] for option, value in _default_options(translator).items()}}
    search = _template("search.md", **told, options=_request(signature_name="search", inputs=inputs))
    return _template(
        "saved_model.md",
        **told,
        **_GENERATION if isinstance(translator, TextGenerator) else _TRANSLATION,
        search="" if optimize == "xla" else search,
        num_scored=translator.max_target_length - 1,
        rows=_request(instances=[text]),
        columns=_request(signature_name="n_best", inputs={"text": [text]}),
        pairs=_request(signature_name="score", instances=[{"text": text, "output": output}]),
        example=text,
        flags=_FLAGS.get(optimize, ""),
        text_import=_TEXT_IMPORT if _needs_tensorflow_text(translator) else "",
    )


def _needs_tensorflow_text(translator: Translator | TextGenerator) -> bool:
    """Return whether the graph of a translator has operations of TensorFlow Text."""
    tokenizers = (translator.source_tokenizer, translator.target_tokenizer)
    return any(tokenizer.needs_tensorflow_text for tokenizer in tokenizers)


def _request(**body: object) -> str:
    """Return JSON that a shell leaves alone: an apostrophe would end its quoted string."""
    return json.dumps(body, ensure_ascii=False).replace("'", "\\u0027")


def _ctranslate2_readme(name: str, max_source_length: int, max_target_length: int) -> str:
    """Return the README of a CTranslate2 model; the lengths count the end token."""
    banned = [
        SPECIAL_TOKENS[token_id] for token_id in (SPECIAL_IDS.pad, SPECIAL_IDS.unknown, SPECIAL_IDS.start)
    ]
    return _template(
        "ctranslate2.md",
        name=name,
        banned=[[token] for token in banned],
        tokens=", ".join(f"`{token}`" for token in banned),
        max_source_length=max_source_length,
        max_target_length=max_target_length,
    )
