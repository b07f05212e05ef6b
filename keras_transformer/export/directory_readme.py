"""The README inside an exported directory: how to serve it and how to ask it."""

import json
from collections.abc import Sequence

_TEMPLATE = """# {name}

A TensorFlow SavedModel: strings in, strings out. Serve the directory above this one with
TensorFlow Serving:

    docker run -p 8501:8501 -v "$PWD/saved_models/{name}:/models/{name}" -e MODEL_NAME={name} \\
        tensorflow/serving --enable_model_warmup

Ask it over REST:

    curl -d '{request}' http://localhost:8501/v1/models/{name}:predict

| signature | in | out |
|---|---|---|
| `serving_default` | `text`, string (b) | `output`, string (b); `score`, float32 (b) |

The score is a log-probability, divided by the length penalty of the search. An empty
text has an empty output and the score 0. In Python:

    import tensorflow as tf
{text_import}
    serve = tf.saved_model.load("saved_models/{name}/1").signatures["serving_default"]
    serve(text=tf.constant([{example!r}]))["output"]
"""

_TEXT_IMPORT = "    import tensorflow_text  # registers the tokenizer's operations\n"


def directory_readme(name: str, examples: Sequence[str], *, needs_tensorflow_text: bool) -> str:
    """Writes the README of an export.

    Args:
        name: of the model.
        examples: real sources; the first is shown.
        needs_tensorflow_text: whether Python must import TensorFlow Text first.

    Returns:
        the text, in Markdown.
    """
    example = examples[0] if examples else "text"
    # An apostrophe would end the shell's quoted string.
    request = json.dumps({"instances": [example]}, ensure_ascii=False).replace("'", "\\u0027")
    return _TEMPLATE.format(
        name=name,
        request=request,
        example=example,
        text_import=_TEXT_IMPORT if needs_tensorflow_text else "",
    )
