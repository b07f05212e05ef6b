import functools
import re
from typing import Any

import numpy as np
import pytest
from keras import ops

from helpers import BeamSearch, GreedySearch, array
from keras_transformer import CausalLM
from keras_transformer._backend import compile_function
from keras_transformer.decoding import generate
from keras_transformer.layers import padding_mask

SIZES: dict[str, Any] = {"num_layers": 2, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
IDS = np.array([[2, 5, 11, 3, 7], [2, 12, 4, 0, 0]])
DESIGNS: list[dict[str, Any]] = [{}, {"norm_first": True, "tie_output": False}]
every_design = pytest.mark.parametrize("design", DESIGNS)


def fresh(**options: Any) -> Any:
    """A model in which every weight, biases too, is random."""
    model = CausalLM(13, **{**SIZES, **options})
    generator = np.random.default_rng(0)
    model.set_weights([generator.normal(scale=0.5, size=weight.shape) for weight in model.weights])
    return model


made = functools.cache(fresh)  # for tests that only call a model


@every_design
def test_composed_of_its_parts(design: dict[str, Any]) -> None:
    model = made(**design)
    x = model.position_encoding(model.token_embedding(IDS))
    states = model.decoder(x, padding_mask=padding_mask(IDS))
    np.testing.assert_allclose(array(model(IDS)), array(model.output_projection(states)), atol=1e-5)
    assert tuple(model.output.shape) == (None, None, 13)
    assert not any("cross" in weight.path for weight in model.weights)


def test_number_of_parameters() -> None:
    d, f = 8, 11
    layer = 4 * (d * d + d) + 2 * d * f + f + d + 2 * 2 * d
    assert made().count_params() == 2 * layer + 13 * d


@every_design
def test_the_future_is_not_seen(design: dict[str, Any]) -> None:
    model, changed = made(**design), IDS.copy()
    changed[:, 3:] = [[9, 1], [6, 8]]
    before, after = array(model(IDS)), array(model(changed))
    np.testing.assert_allclose(after[:, :3], before[:, :3], atol=1e-6)
    assert np.abs(after[:, 3:] - before[:, 3:]).max() > 1e-2


def test_padding_changes_nothing() -> None:
    model = made()
    padded = np.pad(IDS, ((0, 0), (0, 3)))
    np.testing.assert_allclose(array(model(padded))[:, :5], array(model(IDS)), atol=1e-5)
    np.testing.assert_allclose(array(model(IDS[1:, :3]))[0], array(model(IDS))[1, :3], atol=1e-5)


def test_a_row_of_padding_only() -> None:
    ids = np.array([[0, 0, 0, 0, 0], [2, 12, 4, 0, 0]])
    logits = array(made()(ids))
    assert np.all(np.isfinite(logits))
    np.testing.assert_allclose(logits[1], array(made()(IDS))[1], atol=1e-5)


@every_design
@pytest.mark.parametrize("beam_size", [1, 2])
def test_steps_equal_the_whole_pass(design: dict[str, Any], beam_size: int) -> None:
    model, ids = made(**design), np.random.default_rng(1).integers(1, 13, (2 * beam_size, 5))
    ids[beam_size : 2 * beam_size, 0], ids[:beam_size, 0] = 2, 3
    full = array(model(ids))
    step, cache = model.start_decoding([[3], [2]], 7, beam_size)
    for position in range(5):
        logits, cache = step(ids[:, position], position, cache)
        np.testing.assert_allclose(array(logits), full[:, position], atol=1e-5)


@pytest.mark.parametrize("search", [GreedySearch(), BeamSearch(3)])
def test_searches_drive_it(search: Any) -> None:
    model = made()
    starts = np.array([[2], [2]], "int32")
    result = generate(model, starts, search, 5)
    token_ids = array(result.token_ids)
    assert token_ids.shape == (2, search.beam_size, 5)
    # The best hypothesis has the score that the whole pass gives it.
    best = token_ids[0, 0][token_ids[0, 0] > 0]
    logits = array(model(np.concatenate([[2], best])[None]))[0, :-1].astype("float64")
    steps = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    total = steps[np.arange(len(best)), best].sum()
    penalty = ((5 + len(best)) / 6) ** search.length_penalty
    np.testing.assert_allclose(array(result.scores)[0, 0], total / penalty, rtol=1e-3)
    compiled = compile_function(
        lambda ids: generate(model, ops.reshape(ids, (-1, 1)), search, 5), model.variables
    )
    np.testing.assert_array_equal(array(compiled(starts).token_ids), token_ids)


def test_attention_scores() -> None:
    scores = made().attention_scores(IDS)
    assert {name: tuple(score.shape) for name, score in scores.items()} == {
        "decoder/layer_1/self_attention": (2, 2, 5, 5),
        "decoder/layer_2/self_attention": (2, 2, 5, 5),
    }
    seen = np.tril(np.ones((5, 5), bool)) & (IDS > 0)[:, None, None]
    for score in scores.values():
        np.testing.assert_array_equal(array(score) > 0, np.broadcast_to(seen, (2, 2, 5, 5)))


def test_dropout_is_on_in_training_only() -> None:
    model = made(dropout=0.5)
    np.testing.assert_array_equal(array(model(IDS)), array(made()(IDS)))
    assert np.abs(array(model(IDS, training=True)) - array(model(IDS))).max() > 0.01


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match=re.escape("Received: vocabulary_size=None.")):
        CausalLM(None)
    with pytest.raises(ValueError, match=re.escape("Received: num_heads=7, hidden_dim=512.")):
        CausalLM(13, num_heads=7)


def test_decoding_starts_at_the_last_token_of_the_prompts() -> None:
    model = CausalLM(11, num_layers=2, hidden_dim=8, num_heads=2, intermediate_dim=16)
    token_ids = ops.convert_to_tensor([[2, 7, 9, 4, 5], [2, 3, 8, 6, 1]])
    step, cache = model.start_decoding(token_ids[:, :3], max_length=3)
    expected = model(token_ids, training=False)
    for position in range(3):
        logits, cache = step(token_ids[:, 2 + position], position, cache)
        np.testing.assert_allclose(array(logits), array(expected)[:, 2 + position], atol=1e-5)


def test_what_needs_an_encoder() -> None:
    with pytest.raises(ValueError, match=re.escape("padding_mask=[[")):
        made().start_decoding(IDS, 3, padding_mask=IDS > 0)
