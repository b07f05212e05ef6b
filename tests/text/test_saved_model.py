"""Every tokenizer answers in a process that has TensorFlow alone."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from keras_transformer.text import Tokenizer

TEXTS = [b"", b"the cat runs", b"a\x00\xffb", "\U0001f600 שלום".encode(), b"A dog" * 20_000]

SCRIPT = """
import json, sys
import tensorflow as tf
if sys.argv[2] == "True":
    import tensorflow_text
model = tf.saved_model.load(sys.argv[1])
texts = [bytes.fromhex(text) for text in json.loads(sys.argv[3])] + [b"A dog" * 20_000]
out = model.signatures["serving_default"](tf.constant(texts))
names = sorted({name.split(".")[0] for name in sys.modules} & {"keras_transformer", "keras_nlp", "keras_hub"})
rows = {name: [row.hex() for row in value.numpy().ravel().tolist()] for name, value in out.items()}
print(json.dumps({"modules": names, **rows}))
"""


class Serving(tf.Module):
    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def __call__(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        token_ids = self.tokenizer.tokenize(text)
        return {"output": self.tokenizer.detokenize(token_ids), "tokens": self.tokenizer.tokens(token_ids)}


def answer_in_new_process(directory: Path, tokenizer: Tokenizer) -> dict[str, list[str]]:
    arguments = [
        str(directory),
        str(tokenizer.needs_tensorflow_text),
        json.dumps([t.hex() for t in TEXTS[:-1]]),
    ]
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        cwd=directory.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.slow
def test_export_answers_in_a_fresh_process_after_a_move(tokenizer: Tokenizer, tmp_path: Path) -> None:
    serving = Serving(tokenizer)
    tf.saved_model.save(serving, tmp_path / "written", signatures=serving.__call__)
    shutil.move(tmp_path / "written", tmp_path / "moved")
    answer = answer_in_new_process(tmp_path / "moved", tokenizer)
    wanted = serving(tf.constant(TEXTS))
    assert answer.pop("modules") == []
    assert answer == {name: [row.hex() for row in value.numpy().ravel()] for name, value in wanted.items()}


@pytest.mark.backend
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_subword_can_be_exported_on_other_backends(backend: str, tmp_path: Path) -> None:
    pytest.importorskip(backend)
    script = """
import sys
import tensorflow as tf
from keras_transformer.text import SubwordTokenizer
module = tf.Module()
module.tokenizer = tokenizer = SubwordTokenizer.train(["a cat", "a dog"], vocabulary_size=15)
signature = [tf.TensorSpec([None], tf.string)]
module.serve = tf.function(lambda x: tokenizer.detokenize(tokenizer.tokenize(x)), input_signature=signature)
tf.saved_model.save(module, sys.argv[1])
print(tf.saved_model.load(sys.argv[1]).serve(tf.constant(["a cat"])).numpy())
"""
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "export")],
        env={**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.strip() == "[b'a cat']", run.stderr
