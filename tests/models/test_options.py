import inspect
import re
from typing import Any

import pytest

from keras_transformer import CausalLM, EncoderModel, Transformer
from keras_transformer.layers import Block
from keras_transformer.models.config import (
    BLOCK_OPTIONS,
    block_options,
    check_exactly_one,
    check_options,
    constructor_arguments,
)

OPTIONS: dict[str, Any] = {
    "vocabulary_size": 11,
    "feature_dim": None,
    "num_layers": 2,
    "hidden_dim": 8,
    "num_heads": 2,
    "intermediate_dim": 17,
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "intermediate_dropout": 0.3,
    "activation": "relu",
    "gated": True,
    "norm_first": False,
    "normalization": "rms",
    "layer_norm_epsilon": 1e-5,
    "num_key_value_heads": 1,
    "positions": "rotary",
    "max_length": None,
    "tie_output": True,
}
SIZES = ("vocabulary_size", "feature_dim", "num_layers", "hidden_dim", "num_heads", "intermediate_dim")
RATES = ("dropout", "attention_dropout", "intermediate_dropout")


def parameters(of: Any) -> set[str]:
    return set(inspect.signature(of).parameters)


def test_the_options_are_those_of_block_and_of_every_model() -> None:
    assert set(BLOCK_OPTIONS) <= parameters(Block)
    for model in (CausalLM, EncoderModel, Transformer):
        assert set(BLOCK_OPTIONS) <= parameters(model), model


def test_block_options() -> None:
    expected = {name: OPTIONS[name] for name in BLOCK_OPTIONS}
    assert block_options(OPTIONS) == {**expected, "positions": "rotary"}
    assert block_options({**OPTIONS, "positions": "sinusoidal"}) == {**expected, "positions": None}


def test_constructor_arguments() -> None:
    class Base:
        pass

    class Sample(Base):
        def __init__(self, first: int, *, second: str = "b", **kwargs: Any) -> None:
            self.config = constructor_arguments(locals())
            super().__init__()

    assert Sample(1, name="x").config == {"first": 1, "second": "b"}


def test_good_options_pass() -> None:
    check_options(OPTIONS, optional=("feature_dim",))


@pytest.mark.parametrize("name", SIZES)
def test_sizes_not_above_zero(name: str) -> None:
    message = f"`{name}` must be above zero. Received: {name}=0."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_options({**OPTIONS, name: 0}, optional=("feature_dim",))


@pytest.mark.parametrize("value", [2.5, None, "7", True])
def test_sizes_that_are_no_integers(value: Any) -> None:
    message = f"`num_layers` must be an integer. Received: num_layers={value!r}."
    with pytest.raises(TypeError, match=re.escape(message)):
        check_options({**OPTIONS, "num_layers": value}, optional=("feature_dim",))


@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_rates_out_of_range(name: str, rate: float) -> None:
    message = f"`{name}` must be at least 0 and below 1. Received: {name}={rate}."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_options({**OPTIONS, name: rate}, optional=("feature_dim",))


def test_heads_that_do_not_divide_the_width() -> None:
    message = "`num_heads` must divide `hidden_dim`. Received: num_heads=3, hidden_dim=8."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_options({**OPTIONS, "num_heads": 3}, optional=("feature_dim",))


@pytest.mark.parametrize(("first", "second"), [(None, None), (3, 5)])
def test_not_exactly_one(first: Any, second: Any) -> None:
    message = f"Exactly one of `a` and `b` must be given. Received: a={first}, b={second}."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_exactly_one(a=first, b=second)


def test_exactly_one() -> None:
    check_exactly_one(a=3, b=None)
    check_exactly_one(a=None, b=5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_heads": 4, "num_key_value_heads": 3}, "num_key_value_heads=3, num_heads=4."),
        ({"normalization": "batch"}, "Received: normalization='batch'."),
        ({"activation": "softmux"}, "Received: activation='softmux'."),
        ({"positions": "absolute"}, "Received: positions='absolute'."),
        ({"positions": "learned"}, "Received: positions='learned', max_length=None."),
        ({"max_length": 7}, "Received: positions='rotary', max_length=7."),
        (
            {"hidden_dim": 6, "num_heads": 2},
            "positions='rotary'. Received: hidden_dim=6, num_heads=2.",
        ),
    ],
)
def test_options_that_do_not_exist(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        check_options({**OPTIONS, **options}, optional=("feature_dim",))


@pytest.mark.parametrize(
    ("model", "options", "hint"),
    [
        (Transformer, {"num_layer": 2}, " Did you mean `num_layers`?"),
        (CausalLM, {"dropuot": 0.5}, " Did you mean `dropout`?"),
        (EncoderModel, {"poling": "mean"}, " Did you mean `pooling`?"),
        (EncoderModel, {"xyz": 1}, ""),
    ],
)
def test_a_mistyped_option_is_an_error(model: Any, options: dict[str, Any], hint: str) -> None:
    sizes = (10,) if model is CausalLM else (10, 10)
    message = f"{model.__name__} must be given arguments of its own.{hint} Received: {options}."
    with pytest.raises(TypeError, match=re.escape(message)):
        model.from_preset("tiny", *sizes, **options)
