"""The README inside an export."""

import ast
import json
import re
import textwrap
from typing import Any

import pytest

from keras_transformer.export.directory_readme import directory_readme
from keras_transformer.export.serving_module import SIGNATURES

OPTIONS: dict[str, Any] = {
    "version": 3,
    "num_hypotheses": 4,
    "max_target_length": 20,
    "optimize": "float32",
    "needs_tensorflow_text": False,
}


def readme(**changes: Any) -> str:
    return directory_readme("en_fr", [('it\'s "here"', "c'est")], **{**OPTIONS, **changes})


def test_requests_are_json_that_a_shell_leaves_alone() -> None:
    requests = re.findall(r"curl -d '(.*)' http://localhost:8501/v1/models/en_fr:predict", readme())
    assert not any("'" in request for request in requests)
    assert [json.loads(request) for request in requests] == [
        {"instances": ['it\'s "here"']},
        {"signature_name": "n_best", "inputs": {"text": ['it\'s "here"']}},
        {"signature_name": "score", "instances": [{"text": 'it\'s "here"', "output": "c'est"}]},
    ]


def test_every_signature_has_its_row() -> None:
    rows = [line for line in readme().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == list(SIGNATURES)
    for row, signature in zip(rows, SIGNATURES.values(), strict=True):
        assert all(f"`{name}`" in row for name in (*signature.inputs, *signature.outputs))


def test_the_programs_are_python() -> None:
    programs = [
        block for block in re.findall(r"(?:^    .*\n|^\n)+", readme(), re.MULTILINE) if "import" in block
    ]
    assert len(programs) == 2
    for program in programs:
        ast.parse(textwrap.dedent(program))


def test_subwords_say_what_to_import() -> None:
    assert "import tensorflow_text" in readme(needs_tensorflow_text=True)
    assert "import tensorflow_text" not in readme()


def test_the_place_is_the_one_served() -> None:
    text = readme()
    assert "from the directory that holds `en_fr`:" in text
    assert '-v "$PWD/en_fr:/models/en_fr"' in text
    assert 'tf.saved_model.load("en_fr/3")' in text
    assert "saved_models/" not in text
    assert "n is 4;" in text


def test_the_limit_of_an_answer_is_said() -> None:
    text = readme()
    assert "of which 19 tokens are read" in text
    assert "An answer ends at 20 tokens, finished or not." in text


@pytest.mark.parametrize(
    ("optimize", "words"), [("bfloat16", "half the size"), ("xla", "--xla_cpu_compilation_enabled")]
)
def test_what_was_optimized_is_said(optimize: str, words: str) -> None:
    assert words in readme(optimize=optimize)
    assert words not in readme()


def test_commands_hold_for_any_name() -> None:
    text = directory_readme("en de é", [], **OPTIONS)
    assert "-e 'MODEL_NAME=en de é' tensorflow/serving" in text
    assert text.count("http://localhost:8501/v1/models/en%20de%20%C3%A9:predict") == 3
    assert "'--model_config_file=/models/en de é/models.config'" in text
