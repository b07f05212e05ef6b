"""An ensemble: the mean of probabilities, in one pass, step by step, and after it was saved."""

import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from helpers import BeamSearch, GreedySearch, array, target_attention
from keras_transformer.decoding import generate
from keras_transformer.models import CausalLM, Ensemble, Transformer

SIZES = {"num_layers": 2, "num_heads": 2, "intermediate_dim": 11}
SOURCE = np.array([[5, 6, 7, 3], [8, 3, 0, 0]])
TARGET = np.array([[2, 5, 6, 9], [2, 7, 3, 0]])
INPUTS = {"encoder_token_ids": SOURCE, "decoder_token_ids": TARGET}


def made(seed: int, **options: Any) -> Transformer:
    """A model that is sure of its answers: large weights."""
    keras.utils.set_random_seed(seed)
    model = Transformer(9, 10, **{**SIZES, "hidden_dim": 8, **options})
    generator = np.random.default_rng(seed)
    model.set_weights([generator.normal(scale=0.7, size=w.shape) for w in model.weights])
    return model


@pytest.fixture(scope="module")
def models() -> list[Transformer]:
    return [made(0), made(1, hidden_dim=12, positions="rotary", num_layers=1), made(2)]


def softmax(logits: Any) -> Any:
    exponentials = np.exp(array(logits).astype("float64"))
    return exponentials / exponentials.sum(-1, keepdims=True)


def test_the_mean_of_probabilities(models: list[Transformer]) -> None:
    expected = np.log(np.mean([softmax(model(INPUTS)) for model in models], axis=0))
    np.testing.assert_allclose(array(Ensemble(models)(INPUTS)), expected, atol=1e-5)


def test_steps_equal_the_whole_pass(models: list[Transformer]) -> None:
    ensemble = Ensemble(models)
    target = np.where(TARGET, TARGET, 4)  # a step hides no padding
    whole = array(ensemble({**INPUTS, "decoder_token_ids": target}))
    step, cache = ensemble.start_decoding(SOURCE, 4)
    for position in range(4):
        logits, cache = step(target[:, position], position, cache)
        np.testing.assert_allclose(array(logits), whole[:, position], atol=1e-5)


@pytest.mark.parametrize("search", [GreedySearch(), BeamSearch(3)])
def test_a_model_beside_itself_answers_as_alone(search: Any) -> None:
    model = made(0)
    alone, twice = (generate(each, SOURCE, search, 6) for each in (model, Ensemble([model, model])))
    np.testing.assert_array_equal(array(twice.token_ids), array(alone.token_ids))
    np.testing.assert_allclose(array(twice.scores), array(alone.scores), atol=1e-5)


@pytest.mark.slow
def test_the_best_of_all_answers_together(models: list[Transformer]) -> None:
    """The scores that a search gives are those of a pass over its answer."""
    ensemble = Ensemble(models)
    found = generate(ensemble, SOURCE, BeamSearch(4, length_penalty=0.0), 5)
    for row, best in enumerate(array(found.token_ids)[:, 0]):
        target = np.concatenate([[2], best])[None]
        logarithms = array(
            ensemble({"encoder_token_ids": SOURCE[row : row + 1], "decoder_token_ids": target})
        )
        total = sum(logarithms[0, place, token] for place, token in enumerate(best) if token)
        assert total == pytest.approx(array(found.scores)[row, 0], abs=1e-4)


@pytest.mark.slow
def test_saved_and_loaded(models: list[Transformer], tmp_path: Path) -> None:
    ensemble = Ensemble(models, name="both")
    ensemble.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert (loaded.name, loaded.count_params()) == ("both", sum(model.count_params() for model in models))
    np.testing.assert_array_equal(array(loaded(INPUTS)), array(ensemble(INPUTS)))


def test_what_decoding_asks_of_it(models: list[Transformer]) -> None:
    ensemble = Ensemble([*models, made(3, positions="learned", max_length=7)])
    assert ensemble.source_embedding is models[0].source_embedding
    assert ensemble.target_embedding.vocabulary_size == 10
    with pytest.raises(ValueError, match="a model with max_length=7"):
        generate(ensemble, SOURCE, GreedySearch(), 8)
    expected, found = (target_attention(each, SOURCE, TARGET[:, 1:]) for each in (models[0], ensemble))
    for name, scores in expected.items():
        np.testing.assert_array_equal(array(found[name]), array(scores))


def test_features() -> None:
    options = {"encoder_feature_dim": 5, **SIZES, "hidden_dim": 8}
    ensemble = Ensemble([Transformer(None, 10, **options) for _ in range(2)])
    frames = np.ones((2, 3, 5), "float32")
    assert tuple(generate(ensemble, frames, GreedySearch(), 4).token_ids.shape)[:2] == (2, 1)


@pytest.mark.parametrize(
    ("others", "error", "message"),
    [
        ([], ValueError, "`models` must be two or more. Received: 1."),
        ([Transformer(9, 11, **SIZES, hidden_dim=8)], ValueError, "target_vocabulary_size of [10, 11]"),
        ([CausalLM(10, **SIZES, hidden_dim=8)], TypeError, "must be Transformers. Received: CausalLM."),
    ],
)
def test_what_cannot_answer_together(others: list[Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        Ensemble([made(0), *others])
