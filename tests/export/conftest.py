"""A translator small enough to be exported in seconds, with random weights."""

import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest

import keras_transformer as kt
from keras_transformer.export import export_saved_model

if keras.backend.backend() != "tensorflow":
    pytest.skip("exports are made on the TensorFlow backend", allow_module_level=True)

MadeOnce = Callable[[Callable[[Path], object]], Path]
SOURCES = ["a dog sat", "the cat ran", "a rat"]
EXAMPLES = ["a dog", "the cat"]


def make_translator(tokenizer: kt.text.Tokenizer) -> kt.Translator:
    """Join a tokenizer with a tiny model."""
    keras.utils.set_random_seed(1)
    size = tokenizer.vocabulary_size
    model = kt.Transformer(size, size, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8)
    search = kt.decoding.BeamSearch(2)
    return kt.Translator(
        model, tokenizer, tokenizer, search=search, max_source_length=20, max_target_length=7
    )


@pytest.fixture(scope="session")
def translator() -> kt.Translator:
    """Characters: no operation of TensorFlow Text."""
    return make_translator(kt.text.CharacterTokenizer.train(SOURCES))


@pytest.fixture(scope="session")
def subword_translator() -> kt.Translator:
    return make_translator(kt.text.SubwordTokenizer.train(SOURCES, vocabulary_size=20))


@pytest.fixture(scope="session")
def exported(translator: kt.Translator, made_once: MadeOnce) -> Path:
    """An export of it, made once since it takes seconds; next to it what its verification was told."""

    def fill(models: Path) -> None:
        run = subprocess.run

        def record(*arguments: Any, **options: Any) -> Any:
            finished = run(*arguments, **options)
            (models / "process.pickle").write_bytes(pickle.dumps(finished))
            return finished

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(subprocess, "run", record)
            export_saved_model(translator, models / "tiny", EXAMPLES)

    return made_once(fill) / "tiny" / "1"
