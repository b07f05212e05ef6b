"""Options: one description, whose fields are the arguments of the models; presets; what is refused."""

import dataclasses
import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer import CausalLM, EncoderModel, Transformer
from keras_transformer.errors import InputError
from keras_transformer.models import PRESETS, TransformerConfig

PAPER = {"base": (512, 2048, 8, 65e6), "big": (1024, 4096, 16, 213e6)}
SIZES: dict[str, Any] = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
IDS = np.array([[5, 3, 9, 2], [4, 8, 6, 0]])
MODELS = {Transformer: (11, 13), CausalLM: (11,), EncoderModel: (11, 13)}
every_model = pytest.mark.parametrize("kind", MODELS)


@every_model
def test_each_field_reaches_get_config(kind: Any) -> None:
    model = kind(*MODELS[kind], **SIZES, positions="learned", max_length=7, dropout=0.25)
    config = model.get_config()
    for field in dataclasses.fields(model.config):
        assert config[field.name] == getattr(model.config, field.name), field.name
    assert (config["max_length"], config["dropout"], model.max_length) == (7, 0.25, 7)


def test_memory_of_decoding_is_that_of_the_decoder() -> None:
    sizes: dict[str, Any] = {"hidden_dim": 1024, "num_heads": 1, "target_vocabulary_size": 8}
    few = TransformerConfig(num_layers=10**6, num_decoder_layers=1, **sizes)
    few.check_decoding(1, 1, 1, 4096, 4096)
    with pytest.raises(InputError, match="bytes of memory would be needed"):
        dataclasses.replace(few, num_decoder_layers=None).check_decoding(1, 1, 1, 4096, 4096)


def test_a_config_is_frozen_and_compared_by_value() -> None:
    config = TransformerConfig(hidden_dim=64, num_heads=4)
    assert config == TransformerConfig(hidden_dim=64, num_heads=4)
    assert dataclasses.replace(config, num_heads=8) == TransformerConfig(hidden_dim=64)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.num_heads = 2  # type: ignore[misc]


def expected_parameters(num_layers: int, hidden_dim: int, intermediate_dim: int, tables: int) -> int:
    """What the sizes of the paper add up to, biases and normalisations included."""
    d, f = hidden_dim, intermediate_dim
    attention, feed_forward, normalization = 4 * (d * d + d), 2 * d * f + f + d, 2 * d
    encoder_layer = attention + feed_forward + 2 * normalization
    decoder_layer = 2 * attention + feed_forward + 3 * normalization
    return num_layers * (encoder_layer + decoder_layer) + tables * d


def count(name: str, source: int, target: int, **options: bool) -> int:
    # Without values: those of "big" would take a gigabyte.
    with keras.StatelessScope(initialize_variables=False):
        model = Transformer.from_preset(name, source, target, **options)
        num_parameters = int(model.count_params())
    # Keras gives the values when another scope ends, unless it forgets the variables.
    keras.utils.clear_session()
    return num_parameters


@pytest.mark.parametrize("name", ["tiny", "small", "base", "big"])
@pytest.mark.parametrize(
    ("options", "tables"),
    [
        ({}, 11 + 13),
        ({"tie_output": False}, 11 + 13 + 13),
        ({"tie_output": True, "norm_first": True}, 11 + 13 + 4),  # pre-norm stacks end with two more: 4 d
    ],
)
def test_number_of_parameters(name: str, options: dict[str, bool], tables: int) -> None:
    sizes = PRESETS[name]
    expected = expected_parameters(sizes.num_layers, sizes.hidden_dim, sizes.intermediate_dim, tables)
    assert count(name, 11, 13, **options) == expected


@pytest.mark.parametrize("name", ["base", "big"])
def test_sizes_of_the_paper(name: str) -> None:
    hidden_dim, intermediate_dim, num_heads, parameters = PAPER[name]
    sizes = PRESETS[name]
    assert (sizes.num_layers, sizes.hidden_dim, sizes.num_heads) == (6, hidden_dim, num_heads)
    assert sizes.intermediate_dim == intermediate_dim
    counted = count(name, 37000, 37000, share_embeddings=True)
    assert counted == expected_parameters(6, hidden_dim, intermediate_dim, 37000)
    assert abs(counted / parameters - 1) < 0.04


def test_transformer_tiny() -> None:
    # Wu et al. give 2.57 million parameters, with a joint vocabulary of about 9,800.
    assert abs(count("tiny", 9800, 9800, share_embeddings=True) / 2.57e6 - 1) < 0.01


def test_presets_with_other_options() -> None:
    with keras.StatelessScope(initialize_variables=False):
        model = Transformer.from_preset("tiny", 11, 13, num_layers=1, dropout=0.0)
        causal = CausalLM.from_preset("tiny", 11, num_layers=1)
        encoder = EncoderModel.from_preset("tiny", 11, 3, pooling="mean")
        speech = Transformer.from_preset("tiny", None, 13, encoder_feature_dim=5)
    keras.utils.clear_session()
    assert (model.config.num_layers, model.config.dropout, model.config.hidden_dim) == (1, 0.0, 128)
    assert (causal.config.num_layers, causal.config.hidden_dim) == (1, 128)
    assert (encoder.config.num_layers, encoder.config.num_outputs) == (4, 3)
    assert speech.config.encoder_feature_dim == 5


def test_unknown_preset() -> None:
    message = "`preset` must be one of 'tiny', 'small', 'base', 'big'. Received: preset='huge'."
    with pytest.raises(ValueError, match=re.escape(message)):
        Transformer.from_preset("huge", 11, 13)


@pytest.mark.parametrize(
    "name",
    [
        "num_layers",
        "num_decoder_layers",
        "hidden_dim",
        "num_heads",
        "intermediate_dim",
        "encoder_feature_dim",
    ],
)
def test_sizes_not_above_zero(name: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"`{name}` must be above zero. Received: {name}=0.")):
        TransformerConfig(**{name: 0})


@pytest.mark.parametrize("value", [2.5, None, "7", True])
def test_sizes_that_are_no_integers(value: Any) -> None:
    message = f"`num_layers` must be an integer. Received: num_layers={value!r}."
    with pytest.raises(TypeError, match=re.escape(message)):
        TransformerConfig(num_layers=value)


@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "intermediate_dropout"])
@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_rates_out_of_range(name: str, rate: float) -> None:
    with pytest.raises(ValueError, match=re.escape(f"Received: {name}={rate}.")):
        TransformerConfig(**{name: rate})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_heads": 3}, "`num_heads` must divide `hidden_dim`. Received: num_heads=3, hidden_dim=512."),
        ({"num_heads": 4, "num_key_value_heads": 3}, "num_key_value_heads=3, num_heads=4."),
        ({"normalization": "batch"}, "Received: normalization='batch'."),
        ({"activation": "softmux"}, "Received: activation='softmux'."),
        ({"positions": "absolute"}, "`positions` must be one of 'sinusoidal', 'learned', 'rotary', 'rel"),
        ({"positions": "learned"}, "`max_length` must be given for positions='learned', and for no others."),
        (
            {"positions": "learned", "max_length": 0},
            "`max_length` must be above zero. Received: max_length=0.",
        ),
        ({"positions": "rotary", "max_length": 7}, "Received: positions='rotary', max_length=7."),
        (
            {"positions": "rotary", "hidden_dim": 6, "num_heads": 2},
            "positions='rotary'. Received: hidden_dim=6, num_heads=2, head_dim=None.",
        ),
        ({"positions": "rotary", "head_dim": 3}, "hidden_dim=512, num_heads=8, head_dim=3."),
        ({"share_positions": False}, "share_positions=False, positions='sinusoidal'."),
        ({"head_dim": 0}, "`head_dim` must be above zero. Received: head_dim=0."),
        (
            {"share_embeddings": True, "source_vocabulary_size": 11, "target_vocabulary_size": 13},
            "same size. Received: source_vocabulary_size=11, target_vocabulary_size=13",
        ),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        TransformerConfig(**options)


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
    message = f"{model.__name__} has no such argument.{hint} Received: {options}."
    with pytest.raises(TypeError, match=re.escape(message)):
        model.from_preset("tiny", *MODELS[model], **options)


def test_options_and_policy_reach_every_part() -> None:
    block = {
        "num_heads": 2,
        "head_dim": 6,
        "intermediate_dim": 17,
        "activation": "gelu_tanh",
        "gated": True,
        "use_bias": False,
        "dropout": 0.1,
        "attention_dropout": 0.2,
        "intermediate_dropout": 0.3,
        "norm_first": True,
        "final_norm": False,
        "normalization": "rms",
        "layer_norm_epsilon": 1e-5,
        "num_key_value_heads": 1,
        "positions": "rotary",
    }
    options: dict[str, Any] = {**block, "num_layers": 2, "hidden_dim": 8, "dtype": "mixed_bfloat16"}
    model = Transformer(11, 13, num_decoder_layers=3, **options)
    assert (model.encoder.num_layers, model.decoder.num_layers) == (2, 3)
    alone = CausalLM(11, **options)
    tagger = EncoderModel(11, 3, pooling="first", **options)
    assert tagger.output_projection.units == 3
    for stack in (model.encoder, model.decoder, alone.decoder, tagger.encoder):
        config = stack.get_config()
        assert {name: config[name] for name in block} == block
        assert stack.dtype_policy.name == "mixed_bfloat16"
    for each in (model, alone, tagger):
        assert each.embedding_dropout.rate == 0.1
        assert {layer.compute_dtype for layer in each.layers if layer.weights} == {"bfloat16"}


every_kind_of_positions = pytest.mark.parametrize(
    "positions",
    [
        "sinusoidal",
        "sinusoidal_concatenated",
        "learned",
        "rotary",
        "relative",
        "relative_keys",
        "relative_sinusoidal",
    ],
)


@every_kind_of_positions
def test_every_kind_of_positions_knows_the_order(positions: Any) -> None:
    options = {**SIZES, "positions": positions, "max_length": 7 if positions == "learned" else None}
    model = EncoderModel(11, **options)
    generator = np.random.default_rng(0)
    model.set_weights([generator.normal(scale=0.5, size=weight.shape) for weight in model.weights])
    swapped = IDS[:1, [1, 0, 2, 3]]
    difference = array(model(swapped))[0, 2:] - array(model(IDS[:1]))[0, 2:]
    assert np.abs(difference).max() > 1e-3
    assert EncoderModel.from_config(model.get_config()).get_config() == model.get_config()


@every_kind_of_positions
def test_every_kind_of_positions_step_by_step_as_in_one_pass(positions: Any) -> None:
    options = {**SIZES, "positions": positions, "max_length": 7 if positions == "learned" else None}
    model = Transformer(11, 13, dropout=0.0, **options)
    full = array(model({"encoder_token_ids": IDS, "decoder_token_ids": IDS}))
    step, cache = model.start_decoding(IDS, 4)
    for position in range(4):
        logits, cache = step(IDS[:, position], position, cache)
        np.testing.assert_allclose(array(logits)[0], full[0, position], atol=1e-5)


def test_learned_positions_end() -> None:
    model = EncoderModel(11, **SIZES, positions="learned", max_length=7)
    with pytest.raises(ValueError, match=re.escape("max_length=7. Received: start=0, length=8.")):
        model.encode(np.ones((1, 8), "int32"))


@pytest.mark.parametrize("option", [{"use_bias": None}, {"use_bias": 1}, {"final_norm": 2}, {"gated": "yes"}])
def test_what_is_neither_true_nor_false(option: dict[str, Any]) -> None:
    [(name, value)] = option.items()
    message = f"`{name}` must be True or False. Received: {name}={value!r}."
    with pytest.raises(TypeError, match=re.escape(message)):
        TransformerConfig(**option)
