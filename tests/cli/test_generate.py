"""`generate`, and `evaluate --texts`."""

from collections.abc import Callable
from pathlib import Path

import keras
import pytest

import keras_transformer as kt

PROMPTS = ["the d", "it s"]


@pytest.fixture
def model(tmp_path: Path) -> kt.TextGenerator:
    """A generator without training, saved as `model`."""
    keras.utils.set_random_seed(3)
    tokenizer = kt.text.CharacterTokenizer.train(["the dog", "it sat"])
    causal = kt.CausalLM(
        tokenizer.vocabulary_size, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8
    )
    search = kt.decoding.SampleSearch(0.8, top_p=0.95, seed=1)
    generator = kt.TextGenerator(causal, tokenizer, search=search, max_length=12)
    generator.save(tmp_path / "model")
    return generator


def test_prompts_are_continued(model: kt.TextGenerator, command: Callable) -> None:
    wanted = "".join(f"{text}\n" for text in model.generate(PROMPTS))
    assert command("generate", "--model", "model", *PROMPTS).stdout == wanted
    assert (
        command("generate", "--model", "model", input="".join(f"{line}\n" for line in PROMPTS)).stdout
        == wanted
    )
    Path("prompts.txt").write_text("".join(f"{line}\n" for line in PROMPTS))
    assert command("generate", "--model", "model", "--input", "prompts.txt").stdout == wanted


def test_another_command_names_the_right_one(model: kt.TextGenerator, command: Callable) -> None:
    result = command("classify", "--model", "model", "x")
    assert (result.exit_code, "ask it with: keras-transformer generate" in result.stderr) == (2, True)


@pytest.mark.slow
def test_several_samples_with_another_seed_and_length(model: kt.TextGenerator, command: Callable) -> None:
    words = ["--num-samples", 3, "--seed", 9, "--temperature", 1, "--top-k", 4, "--max-length", 9, "--scores"]
    result = command("generate", "--model", "model", *words, *PROMPTS)
    assert result.exit_code == 0, result.output
    model.search = kt.decoding.SampleSearch(1.0, top_k=4, top_p=0.95, num_samples=3, seed=9)
    model.max_length = 9
    wanted = [f"{each.score:.4f}\t{each.text}" for row in model.n_best(PROMPTS) for each in row]
    assert result.stdout.splitlines() == wanted


def test_without_a_temperature_it_takes_the_best(model: kt.TextGenerator, command: Callable) -> None:
    model.search = kt.decoding.GreedySearch()
    result = command("generate", "--model", "model", "--temperature", 0, *PROMPTS)
    assert result.stdout.splitlines() == model.generate(PROMPTS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--temperature", "0", "--seed", "2"], "--temperature 0 draws nothing"),
        (["--max-length", "13"], "--max-length must be at most the model's 12. Received: 13"),
        (["--input", "x"], "Give prompts or --input"),
        (["--model", "absent"], "absent is not the directory of a model"),
    ],
)
def test_what_is_refused(model: kt.TextGenerator, command: Callable, words: list[str], message: str) -> None:
    result = command("generate", "--model", "model", "a", *words)
    assert result.exit_code == 2
    assert message in result.stderr.splitlines()[-1]


def test_texts_are_scored(model: kt.TextGenerator, command: Callable) -> None:
    Path("texts.txt").write_text("the dog\nit sat\n")
    result = command("evaluate", "--model", "model", "--texts", "texts.txt")
    assert result.stdout == f"{kt.evaluation.evaluate_texts(model, ['the dog', 'it sat'])}\n"
    assert "Name a model with --model or --saved-model" in command("evaluate", "--texts", "texts.txt").stderr


@pytest.mark.slow
def test_an_export_continues_as_the_model_does(model: kt.TextGenerator, command: Callable) -> None:
    model.search = kt.decoding.SampleSearch(0.9, num_samples=2, seed=1)
    model.save("model")
    assert command("export", "model", "saved", "--example", "the d").exit_code == 0
    words = ["--num-samples", 2, "--scores", *PROMPTS, *PROMPTS]
    both = [
        command("generate", *place, *words) for place in (["--model", "model"], ["--saved-model", "saved"])
    ]
    texts = [[line.split("\t")[1] for line in each.stdout.splitlines()] for each in both]
    assert texts[0] == texts[1]
    assert len(texts[0]) == 8
    result = command("generate", "--saved-model", "saved", "--temperature", 2, "a")
    assert "An export samples as it was exported" in result.stderr
    other = command("generate", "--saved-model", "saved", "--seed", 7, "--max-length", 8, *PROMPTS)
    assert other.exit_code == 0
    assert other.stdout != "".join(f"{text}\n" for text in model.generate(PROMPTS))
