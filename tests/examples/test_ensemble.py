"""The ensemble that the example writes: a directory as that of one model."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keras_transformer.decoding import GreedySearch
from keras_transformer.models import Ensemble, Transformer
from keras_transformer.tasks import Translator
from keras_transformer.text import CharacterTokenizer

SIZES = {"num_layers": 1, "num_heads": 2, "intermediate_dim": 11}


@pytest.fixture
def join(
    load_example: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Run the example in a new directory, on models of which each has letters and a width."""
    example = load_example("ensemble")
    monkeypatch.chdir(tmp_path)

    def run(*models: tuple[str, int]) -> None:
        names = [f"model_{number}" for number in range(len(models))]
        for name, (letters, hidden_dim) in zip(names, models, strict=True):
            tokenizer = CharacterTokenizer(list(letters))
            size = tokenizer.vocabulary_size
            model = Transformer(size, size, hidden_dim=hidden_dim, dtype="mixed_bfloat16", **SIZES)
            options = {"search": GreedySearch(), "max_target_length": hidden_dim, "split_texts": "none"}
            Translator(model, tokenizer, tokenizer, **options).save(name)
        monkeypatch.setattr(sys, "argv", ["ensemble.py", *names, "--output", "joined"])
        example.main()

    return run


@pytest.mark.slow
def test_what_is_written_is_read_as_one_model(
    join: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    join(("abc", 8), ("abc", 12))
    joined = Translator.load("joined")
    assert isinstance(joined.model, Ensemble)
    assert capsys.readouterr().out == f"wrote joined: {joined.model.count_params():,} parameters\n"
    assert (type(joined.search), joined.max_target_length, joined.split_texts) == (GreedySearch, 8, "none")
    assert len(joined.translate(["ab", "cab"])) == 2
    assert {model.compute_dtype for model in joined.model.members} == {"float32"}


@pytest.mark.parametrize(
    ("models", "message"),
    [
        pytest.param([("abc", 8)], "`models` must be two or more. Received: 1.", marks=pytest.mark.slow),
        ([("abc", 8), ("abd", 8)], "model_1 has another source_tokenizer than model_0."),
    ],
)
def test_what_cannot_be_joined(
    join: Callable[..., None],
    models: list[tuple[str, int]],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        join(*models)
    assert message in capsys.readouterr().err
    assert not Path("joined").exists()
