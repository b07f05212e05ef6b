"""The recipe of the README is one that `train` takes."""

from pathlib import Path

from keras_transformer.config import RunConfig

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_recipe_is_read() -> None:
    run = RunConfig.from_toml(EXAMPLES / "multi30k.toml")
    assert run.name == "en_de"
    assert run.model.preset == "tiny"
    assert run.decoding.bleu_tokenize == "none"
