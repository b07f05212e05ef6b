"""What is chosen for a corpus: the same by a run and in a script."""

import logging
from pathlib import Path
from typing import Any

import pytest

import keras_transformer as kt
from keras_transformer.runs import Recipe, Run, RunConfig
from keras_transformer.runs.recipe import choose_kind, choose_sizes, train_tokenizer
from keras_transformer.types import Pair
from trained_run import SMALL

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
NUMBERS = [(" ".join(WORDS[int(digit)] for digit in f"{n:03}"), f"{n:03}") for n in range(1000)]
SENTENCES = [(f"the dog number {n} sat on a mat", f"der Hund {n} sitzt auf der Matte") for n in range(100)]


@pytest.mark.parametrize(
    ("num_tokens", "given", "chosen"),
    [
        (19_000, {}, (512, 81, 601)),  # 2,470 short pairs
        (435_000, {}, (4096, 29, 615)),  # Multi30k
        (10_000_000, {}, (4096, 10, 1000)),
        (19_000, {"epochs": 3, "gradient_accumulation_steps": 2}, (512, 3, 11)),
        (19_000, {"tokens_per_batch": 4096, "warmup_steps": 5}, (4096, 100, 5)),
        (19_000, {"holds": 1000}, (1000, 100, 380)),
    ],
)
def test_what_is_not_given_follows_the_number_of_tokens(
    num_tokens: int, given: dict[str, int], chosen: tuple[int, ...]
) -> None:
    assert choose_sizes(num_tokens, **{"holds": 256, **given}) == chosen


@pytest.mark.parametrize(
    ("pairs", "kind"),
    [
        (NUMBERS, "character"),
        ([(target, source) for source, target in NUMBERS], "character"),
        ([("kat", "cats"), ("dog", "dogs")], "character"),  # words to their forms
        ([("AB-12", "a code"), ("CD-34", "another code")], "character"),
        (SENTENCES, "subword"),
        ([("我喜欢猫", "I like cats")] * 4, "subword"),  # a sentence, though without spaces
        ([(source * 20, target) for source, target in NUMBERS], "subword"),  # too long to be spelled
        ([("", "")], "subword"),
    ],
)
def test_short_texts_of_digits_codes_and_words_are_spelled(pairs: list[Pair], kind: str) -> None:
    sources, targets = ([*side] for side in zip(*pairs, strict=True))
    assert choose_kind(None, sources, targets) == kind


def test_characters_are_proposed_where_subwords_are_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sources, targets = ([*side] for side in zip(*NUMBERS, strict=True))
    assert choose_kind("subword", sources, targets) == "subword"
    assert caplog.messages == [
        "kind=character may suit these texts better, because targets are digits and codes"
    ]
    caplog.clear()
    assert choose_kind("subword", *([*side] for side in zip(*SENTENCES, strict=True))) == "subword"
    assert not caplog.messages


@pytest.mark.parametrize(
    ("kind", "options", "ignored"),
    [
        ("subword", {"normalize_spaces": True}, "normalize_spaces"),
        ("whitespace", {"normalize_spaces": True}, "normalize_spaces"),
        ("character", {"normalization_rule": "identity"}, "normalization_rule"),
    ],
)
def test_an_option_of_another_kind_is_told(
    kind: str, options: dict[str, Any], ignored: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    train_tokenizer(["one two", "two one"], kind, 20, **options)
    assert caplog.messages == [f"{ignored} has no effect with kind={kind}"]


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"kind": "subword"}, "subword"),
        ({"subword_dropout": 0.1}, "subword"),
        ({"target_kind": "whitespace"}, "whitespace"),
        ({"target_kind": "whitespace", "shared": False}, None),
        ({}, None),
    ],
)
def test_a_kind_that_follows_from_another_option_is_asked_for(options: Any, kind: str | None) -> None:
    assert RunConfig().override(**options).vocabulary.asked_kind == kind


@pytest.mark.parametrize("pairs", [NUMBERS, SENTENCES])
def test_a_script_chooses_what_a_run_chooses(
    pairs: list[Pair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = Recipe.of(pairs)

    def stop(model: Any, *_: object, **__: object) -> None:
        models.append((model, kt.text.Tokenizer.load(tmp_path / "x" / "source_tokenizer")))
        raise KeyboardInterrupt

    models: list[Any] = []
    monkeypatch.setattr("keras.Model.fit", stop)
    sizes = {name: SMALL[name] for name in ("num_encoder_layers", "num_decoder_layers", "hidden_dim")}
    run = Run(RunConfig.default(pairs="x.tsv", name="x", run_directory=str(tmp_path), **sizes))
    run.data = run_data(pairs)
    with pytest.raises(KeyboardInterrupt):
        run.train(verbose=0)
    [(model, tokenizer)] = models
    chosen = {name: getattr(recipe, name) for name in ("tokens_per_batch", "epochs", "warmup_steps")}
    assert run.config.chosen == chosen
    assert tokenizer.fingerprint() == recipe.tokenizer.fingerprint()
    assert model.config.dropout == recipe.dropout == (0.1 if pairs is NUMBERS else 0.3)
    assert model.optimizer._learning_rate.get_config() == recipe.learning_rate.get_config()


def run_data(pairs: list[Pair]) -> Any:
    """Pairs of a run, the first of which are held out too."""
    return kt.runs.kind.RunData(train=pairs, validation=pairs[:4], test=pairs[:4])


@pytest.mark.parametrize("pairs", ["ab", 3, [("a",)], [("a", "b", "c")], ["ab"], [("a", None)]])
def test_what_is_no_list_of_pairs(pairs: Any) -> None:
    with pytest.raises(TypeError, match=r"pairs? .*Received: pairs"):
        Recipe.of(pairs)
