"""A run that begins with the vocabularies and weights of an earlier one."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from keras_transformer.decoding import Translator
from keras_transformer.errors import InputError
from keras_transformer.runs import ModelConfig, RunConfig, TrainingConfig
from keras_transformer.runs.data import initial_tokenizers, initial_transformer
from keras_transformer.training import Checkpoint


@pytest.fixture
def earlier(trained: Path) -> str:
    """The directory of a run of a model 8 wide, without dropout but for the preset's."""
    return str(trained / "runs/tiny")


def test_weights_are_the_earlier_ones_and_rates_and_precision_are_new(earlier: str) -> None:
    run = RunConfig(model=ModelConfig(dropout=0.45), training=TrainingConfig(precision="mixed_bfloat16"))
    model = initial_transformer(earlier, run)
    before = Translator.load(earlier).model
    assert before.config.dropout == 0.3
    assert model.config.dropout == 0.45
    assert model.get_config()["dtype"]["config"]["name"] == "mixed_bfloat16"
    for weight, same in zip(model.get_weights(), before.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, same)


def test_vocabularies_are_the_earlier_ones(earlier: str) -> None:
    before = Translator.load(earlier)
    source, target = initial_tokenizers(earlier)
    assert source.fingerprint() == before.source_tokenizer.fingerprint()
    assert target.fingerprint() == before.target_tokenizer.fingerprint()


def test_another_architecture_is_refused_by_name(earlier: str) -> None:
    run = RunConfig(model=ModelConfig(hidden_dim=16, num_encoder_layers=1, norm_first=True))
    with pytest.raises(InputError, match="hidden_dim=16 where the model has 8, norm_first=True") as error:
        initial_transformer(earlier, run)
    assert "num_encoder_layers" not in str(error.value)


def test_as_many_key_value_heads_as_heads_are_the_earlier_architecture(earlier: str) -> None:
    num_heads = Translator.load(earlier).model.config.num_heads
    run = RunConfig(model=ModelConfig(num_heads=num_heads, num_key_value_heads=num_heads))
    model = initial_transformer(earlier, run)
    assert len(model.get_weights()) == len(Translator.load(earlier).model.get_weights())


def test_a_run_begins_where_the_earlier_one_stands(
    run: Callable, earlier: str, pairs_file: Path, tmp_path: Path
) -> None:
    words = ["--pairs", pairs_file, "--name", "further", "--initial-model", earlier, "--epochs", "1"]
    result = run("train", *words, "--peak-learning-rate", "1e-9", "--beam-size", "1", "--dropout", "0")
    assert result.exit_code == 0, result.output
    assert f"beginning with the weights of {earlier}" in result.stderr
    before, after = Translator.load(earlier), Translator.load(tmp_path / "runs/further")
    for weight, same in zip(after.model.get_weights(), before.model.get_weights(), strict=True):
        np.testing.assert_allclose(weight, same, atol=1e-6)
    assert Checkpoint(tmp_path / "runs/further").epoch == 1


def test_nothing_to_begin_with_is_one_line(run: Callable, pairs_file: Path, tmp_path: Path) -> None:
    result = run("train", "--pairs", pairs_file, "--name", "further", "--initial-model", "runs/absent")
    assert result.exit_code == 2
    assert "runs/absent" in result.stderr.splitlines()[-1]
    assert not (tmp_path / "runs/further/checkpoints").exists()
