"""Options that encoder and decoder layer share."""

from typing import Any

import pytest

from helpers import draw, refused_in_one_way_only
from keras_transformer import course

BOTH = pytest.mark.parametrize("cls", [course.EncoderLayer, course.DecoderLayer])
OPTIONS = {"embedding_dim": 7, "num_heads": 3, "fully_connected_dim": 11}


@BOTH
def test_defaults_are_those_of_the_course(cls: Any) -> None:
    layer = cls(7, 3, 11)
    config = {**OPTIONS, "dropout_rate": 0.1, "layernorm_eps": 1e-6}
    assert {name: layer.get_config()[name] for name in config} == config
    assert layer.dropout_ffn.rate == 0.1
    assert layer.layernorm1.epsilon == 1e-6


@BOTH
def test_config_round_trip(cls: Any) -> None:
    layer = cls(7, 3, 11, 0.2, 1e-5, name="mine", dtype="mixed_bfloat16")
    copied = cls.from_config(layer.get_config())
    assert copied.get_config() == layer.get_config()
    assert (copied.dropout_ffn.rate, copied.layernorm1.epsilon, copied.name) == (0.2, 1e-5, "mine")
    assert copied.ffn.layers[0].dtype_policy.name == "mixed_bfloat16"


@BOTH
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"num_heads": 0}, ValueError, "`num_heads` must be above zero. Received: num_heads=0"),
        ({"embedding_dim": -7}, ValueError, "`embedding_dim` must be above zero. Received: embedding_dim=-7"),
        ({"fully_connected_dim": 2.5}, TypeError, "Received: fully_connected_dim=2.5"),
        ({"dropout_rate": 1.0}, ValueError, "below 1. Received: dropout_rate=1.0"),
    ],
)
def test_wrong_options(cls: Any, wrong: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cls(**{**OPTIONS, **wrong})


@BOTH
def test_weights_of_the_course_can_be_set(cls: Any) -> None:
    layer = cls(7, 3, 11)
    layer.build(*[(None, None, 7)] * (1 if cls is course.EncoderLayer else 2))
    names = ["mha"] if cls is course.EncoderLayer else ["mha1", "mha2"]
    parts = [getattr(layer, name) for name in [*names, "ffn"]]
    parts += [getattr(layer, f"layernorm{number}") for number in range(1, len(names) + 2)]
    expected = [id(weight) for part in parts for weight in part.weights]
    assert [id(weight) for weight in layer.weights] == expected


@BOTH
def test_what_an_eager_call_refuses_is_refused_symbolically(cls: Any) -> None:
    layer, given = cls(7, 3, 11), {"x": draw(2, 5, 7)}
    if cls is course.DecoderLayer:
        given["enc_output"] = draw(2, 3, 7, seed=1)
    assert refused_in_one_way_only(lambda inputs: layer(*inputs.values()), given) == []
