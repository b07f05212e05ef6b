import re
from typing import Any

import numpy as np
import pytest

from helpers import array
from keras_transformer import CausalLM, EncoderModel, Transformer
from keras_transformer.layers import LearnedPositionEncoding, PositionEncoding
from keras_transformer.models.config import (
    POSITIONS,
    NoPositionEncoding,
    attention_positions,
    check_positions,
    make_position_encoding,
)

SIZES: dict[str, Any] = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
IDS = np.array([[5, 3, 9, 2], [4, 8, 6, 0]])


def options(positions: str) -> dict[str, Any]:
    return {"positions": positions, "max_length": 7 if positions == "learned" else None}


@pytest.mark.parametrize(
    ("positions", "kind"),
    [
        ("sinusoidal", PositionEncoding),
        ("learned", LearnedPositionEncoding),
        ("rotary", NoPositionEncoding),
        ("relative", NoPositionEncoding),
    ],
)
def test_which_layer_stands_before_the_stacks(positions: str, kind: Any) -> None:
    layer = make_position_encoding(positions, options(positions)["max_length"], "mixed_bfloat16")
    assert type(layer) is kind
    assert (layer.name, layer.compute_dtype) == ("position_encoding", "bfloat16")
    assert attention_positions(positions) == (positions if kind is NoPositionEncoding else None)


def test_no_position_encoding_changes_nothing() -> None:
    x = np.ones((1, 3, 2), "float32")
    np.testing.assert_array_equal(array(NoPositionEncoding()(x, start=5)), x)


def randomized(model: Any) -> Any:
    generator = np.random.default_rng(0)
    model.set_weights([generator.normal(scale=0.5, size=weight.shape) for weight in model.weights])
    return model


@pytest.mark.parametrize("positions", POSITIONS)
def test_every_kind_knows_the_order(positions: str) -> None:
    model = randomized(EncoderModel(11, **SIZES, **options(positions)))
    swapped = IDS[:1, [1, 0, 2, 3]]
    difference = array(model(swapped))[0, 2:] - array(model(IDS[:1]))[0, 2:]
    assert np.abs(difference).max() > 1e-3


@pytest.mark.parametrize("positions", POSITIONS)
def test_step_by_step_as_in_one_pass(positions: str) -> None:
    model = randomized(Transformer(11, 13, dropout=0.0, **SIZES, **options(positions)))
    full = array(model({"encoder_token_ids": IDS, "decoder_token_ids": IDS}))
    cache = model.create_cache(IDS, 4)
    for position in range(4):
        logits, cache = model.decode_step(IDS[:, position], position, cache)
        np.testing.assert_allclose(array(logits)[0], full[0, position], atol=1e-5)


@pytest.mark.parametrize("positions", POSITIONS)
def test_config_round_trip(positions: str) -> None:
    model = CausalLM(11, **SIZES, **options(positions))
    assert CausalLM.from_config(model.get_config()).get_config() == model.get_config()


def test_learned_positions_end() -> None:
    model = EncoderModel(11, **SIZES, **options("learned"))
    with pytest.raises(ValueError, match=re.escape("max_length=7. Received: start=0, length=8.")):
        model.encode(np.ones((1, 8), "int32"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("absolute", None), "`positions` must be one of 'sinusoidal', 'learned', 'rotary', 'relative'."),
        (("learned", None), "`max_length` must be given for positions='learned', and for no others."),
        (("rotary", 7), "Received: positions='rotary', max_length=7."),
        (("learned", 0), "`max_length` must be above zero. Received: max_length=0."),
    ],
)
def test_errors(arguments: tuple[Any, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        check_positions(*arguments)
