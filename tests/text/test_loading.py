import json
import subprocess
import sys
from pathlib import Path

import pytest

from keras_transformer.errors import InputError
from keras_transformer.text import Tokenizer, load_tokenizer
from keras_transformer.text.loading import TOKENIZERS


def test_every_kind_is_loaded_as_its_class(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    assert type(load_tokenizer(tmp_path)) is type(tokenizer)


def test_kinds_are_the_names_of_their_classes() -> None:
    assert sorted(TOKENIZERS) == ["character", "subword", "whitespace"]


@pytest.mark.parametrize("kind", [None, "words", 7, []])
def test_an_unknown_kind_is_named(kind: object, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps({"kind": kind}))
    with pytest.raises(InputError) as error:
        load_tokenizer(tmp_path)
    wanted = "kind must be one of ('character', 'subword', 'whitespace')"
    assert str(error.value) == f"{tmp_path / 'tokenizer.json'}: {wanted}. Received: {kind!r}."


def test_a_directory_that_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"Cannot read {tmp_path}/tokenizer\.json: No such file"):
        load_tokenizer(tmp_path)


def test_importing_the_stage_imports_no_subword_library() -> None:
    script = "import sys, keras_transformer.text; print({'keras_nlp', 'tensorflow_text'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
