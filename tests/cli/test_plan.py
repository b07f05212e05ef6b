"""`keras-transformer plan`: the options of `train`, a directory, and what it refuses."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import keras_transformer as kt
from keras_transformer.training import memory_plan
from keras_transformer_cli import main


def plan(*words: object) -> Result:
    return CliRunner().invoke(main, ["plan", *map(str, words)])


def test_it_prints_the_plan_of_the_model_that_train_would_make() -> None:
    result = plan("--preset", "small", "--vocabulary-size", 500, "--batch-size", 3, "--source-length", 7)
    with kt.models.shapes_only():
        model = kt.Transformer.from_preset("small", 500, 500, share_embeddings=True)
    wanted = memory_plan(model, 3, source_length=7, target_length=64)
    assert (result.exit_code, result.stdout) == (0, f"{wanted}\n")


def test_options_of_training_count() -> None:
    sizes = ("--task", "generate", "--num-layers", 1, "--vocabulary-size", 500)
    result = plan(*sizes, "--ema-momentum", 0.9, "--precision", "mixed_bfloat16")
    with kt.models.shapes_only():
        model = kt.CausalLM.from_preset("tiny", 500, num_layers=1, dtype="mixed_bfloat16")
    kt.training.compile_model(model, 1e-3, ema_momentum=0.9)
    assert result.stdout == f"{memory_plan(model, 64, target_length=64)}\n"


def test_a_file_of_train(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('[model]\npreset = "small"\n[vocabulary]\nshared = false\n', encoding="utf-8")
    of_file, of_flags = plan("--config", path), plan("--preset", "small", "--separate")
    assert of_file.stdout == of_flags.stdout != ""


def test_a_file_of_another_task(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('task = "tag"\n', encoding="utf-8")
    result = plan("--config", path)
    assert result.exit_code == 2
    assert "`task` must be one of translate, generate. Received: task='tag'." in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--task", "tag"), "'tag' is not one of 'translate', 'generate'."),
        (("--model", "here", "--preset", "big"), "give --model or others. Received: preset."),
        (("--model", "here", "--vocabulary-size", 9), "give --model or others. Received: vocabulary_size."),
        (("--model", "nowhere"), "nowhere is not the directory of a model"),
        (("--num-heads", 3), "`num_heads` must divide `hidden_dim`"),
    ],
)
def test_what_it_refuses(words: tuple[object, ...], message: str) -> None:
    result = plan(*words)
    assert result.exit_code == 2
    assert message in result.stderr
