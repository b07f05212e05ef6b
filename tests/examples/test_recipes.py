"""The recipes of the README are such as `train` takes."""

from pathlib import Path

import pytest

from keras_transformer.runs import RunConfig

RECIPES = Path(__file__).parents[2] / "examples/recipes"


def test_multi30k() -> None:
    run = RunConfig.from_toml(RECIPES / "multi30k.toml")
    assert run.name == "en_de"
    assert run.model.preset == "tiny"
    assert run.decoding.bleu_tokenize == "none"


def test_the_short_recipe_differs_in_its_training_alone() -> None:
    long, short = (RunConfig.from_toml(RECIPES / f"multi30k{name}.toml") for name in ("", "_short"))
    assert (short.data, short.vocabulary, short.decoding) == (long.data, long.vocabulary, long.decoding)
    assert short.training.average_last <= short.training.epochs // 4


def test_cmudict() -> None:
    run = RunConfig.from_toml(RECIPES / "cmudict.toml")
    assert (run.vocabulary.kind, run.vocabulary.target_kind) == ("character", "whitespace")
    assert run.training.average_last == 8


def test_the_second_model_of_an_ensemble_has_the_vocabularies_and_the_search_of_the_first() -> None:
    first, second = (RunConfig.from_toml(RECIPES / f"{name}.toml") for name in ("cmudict", "cmudict_rotary"))
    assert second.vocabulary == first.vocabulary
    assert second.decoding == first.decoding
    assert (second.model.positions, second.name) == ("rotary", "cmudict_rotary")


@pytest.mark.parametrize("name", ["cmudict", "cmudict_rotary"])
def test_the_second_part_of_a_recipe_goes_on_from_the_first(name: str) -> None:
    first, second = (RunConfig.from_toml(RECIPES / f"{file}.toml") for file in (name, f"{name}_r_drop"))
    assert second.model.initial_model == f"runs/{first.name}"
    assert second.name != first.name
    assert second.data == first.data
    assert second.decoding == first.decoding


@pytest.mark.parametrize(("earlier", "later"), [("", "_2"), ("_2", "_3")])
def test_each_further_part_goes_on_from_the_one_before(earlier: str, later: str) -> None:
    second, third = (RunConfig.from_toml(RECIPES / f"cmudict_r_drop{part}.toml") for part in (earlier, later))
    assert third.model.initial_model == f"runs/{second.name}"
    assert third.name not in ("cmudict", second.name)
    assert third.decoding == second.decoding


def test_the_distilled_model_goes_on_from_a_seed_of_the_first() -> None:
    first, distilled = (
        RunConfig.from_toml(RECIPES / f"{name}.toml") for name in ("multi30k", "multi30k_distilled")
    )
    assert distilled.training.seed == distilled.data.seed == 1
    assert distilled.model.initial_model == "runs/multi30k_1"
    assert distilled.name == "multi30k_distilled_1"
    assert distilled.decoding == first.decoding
    assert distilled.data.validation_source == first.data.validation_source
    assert distilled.data.test_target == first.data.test_target


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_each_says_how_it_is_run(path: Path) -> None:
    assert (
        f"#   keras-transformer train --config {path.name}" in path.read_text(encoding="utf-8").splitlines()
    )
