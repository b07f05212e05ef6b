"""Answers from a SavedModel in a process that has neither Keras nor this package.

The file is run as a program of its own, never imported: its text is handed to a new interpreter.
Arguments: the directory of the SavedModel, and `text` if it has operations of TensorFlow Text.
Standard input: a JSON list of texts. Standard output: a JSON list of [output, score].
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

# Whatever asks for one of these gets an ImportError, TensorFlow itself included.
BLOCKED: dict[str, Any] = {"keras": None, "tf_keras": None, "keras_transformer": None}
sys.modules.update(BLOCKED)

import tensorflow as tf  # noqa: E402


def load_text_operations() -> None:
    """Loads what a model server links in: the operations of TensorFlow Text, not its Python."""
    package: Any = importlib.util.find_spec("tensorflow_text")
    for library in Path(package.origin).parent.glob("python/ops/*.so"):
        tf.load_op_library(str(library))


if __name__ == "__main__":
    directory, *options = sys.argv[1:]
    if "text" in options:
        load_text_operations()
    serve = tf.saved_model.load(directory).signatures["serving_default"]
    # One by one: so it is also shown that a batch of one gives what a batch of many gave.
    answers = [serve(text=tf.constant([text])) for text in json.load(sys.stdin)]
    print(json.dumps([(a["output"].numpy()[0].decode(), float(a["score"].numpy()[0])) for a in answers]))
