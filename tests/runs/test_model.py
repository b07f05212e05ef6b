"""The sizes of a model: ranges, what must fit together, and what differs from a preset."""

from typing import Any, get_args, get_type_hints

import pytest

from keras_transformer.layers import normalization as layers_normalization
from keras_transformer.models import TransformerConfig as Options
from keras_transformer.runs import ModelConfig, TransformerConfig
from keras_transformer.runs.config import NORMALIZATIONS, POSITIONS, field_names


def transformer(**values: Any) -> TransformerConfig:
    return TransformerConfig(**{"source_vocabulary_size": 11, "target_vocabulary_size": 13, **values})


def test_the_defaults_are_the_base_model_of_the_paper() -> None:
    config = transformer()
    assert (config.num_encoder_layers, config.num_decoder_layers) == (6, 6)
    assert (config.hidden_dim, config.intermediate_dim, config.num_heads) == (512, 2048, 8)
    assert (config.dropout, config.activation, config.norm_first) == (0.1, "relu", False)


def test_heads_divide_the_width() -> None:
    message = r"^`num_heads` must divide `hidden_dim`\. Received: num_heads=7, hidden_dim=512\.$"
    with pytest.raises(ValueError, match=message):
        transformer(num_heads=7)


@pytest.mark.parametrize(
    "name",
    [
        "source_vocabulary_size",
        "target_vocabulary_size",
        "num_encoder_layers",
        "num_decoder_layers",
        "hidden_dim",
        "num_heads",
        "intermediate_dim",
    ],
)
def test_sizes_are_positive(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^`{name}` must be at least 1\. Received: {name}=0\.$"):
        transformer(**{name: 0})


@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "intermediate_dropout"])
@pytest.mark.parametrize("value", [1.0, -0.25])
def test_rates_are_fractions(name: str, value: float) -> None:
    with pytest.raises(
        ValueError, match=rf"`{name}` must be at least 0 and below 1\. Received: {name}={value}\."
    ):
        transformer(**{name: value})


def test_heads_of_keys_divide_the_heads() -> None:
    message = r"^`num_key_value_heads` must divide `num_heads`\. Received: num_key_value_heads=3, num_heads"
    with pytest.raises(ValueError, match=message):
        transformer(num_key_value_heads=3)
    assert transformer(num_key_value_heads=2).num_key_value_heads == 2


def test_rotary_positions_turn_pairs_of_features() -> None:
    message = r"must be even for positions='rotary'\. Received: hidden_dim=12, num_heads=4\."
    with pytest.raises(ValueError, match=message):
        transformer(hidden_dim=12, num_heads=4, positions="rotary")
    assert transformer(hidden_dim=12, num_heads=4).positions == "sinusoidal"


@pytest.mark.parametrize("config", [transformer, ModelConfig])
def test_names_are_known_ones(config: Any) -> None:
    with pytest.raises(ValueError, match=r"`positions` must be one of sinusoidal, rotary, relative\. Rec"):
        config(positions="learned")
    with pytest.raises(ValueError, match=r"`normalization` must be one of layer, rms\. Received"):
        config(normalization="batch")


def test_known_names_are_those_of_the_models() -> None:
    assert set(POSITIONS) == set(get_args(get_type_hints(Options)["positions"])) - {"learned"}
    assert NORMALIZATIONS == layers_normalization.NORMALIZATIONS


def test_shared_embeddings_need_one_vocabulary() -> None:
    message = r"one size\. Received: source_vocabulary_size=11, target_vocabulary_size=13\."
    with pytest.raises(ValueError, match=message):
        transformer(share_embeddings=True)
    assert transformer(share_embeddings=True, target_vocabulary_size=11).share_embeddings


def test_a_wrong_type() -> None:
    with pytest.raises(TypeError, match=r"`norm_first` must be bool\. Received: norm_first=1\."):
        transformer(norm_first=1)


def test_overrides_are_the_fields_that_are_set() -> None:
    assert ModelConfig().overrides() == {}
    config = ModelConfig(preset="big", dropout=0.0, norm_first=False, num_heads=2)
    assert config.overrides() == {"num_heads": 2, "dropout": 0.0, "norm_first": False}
    assert transformer(**config.overrides()).num_heads == 2


def test_a_run_can_override_all_but_the_vocabulary_sizes() -> None:
    sizes = {"source_vocabulary_size", "target_vocabulary_size"}
    assert (
        set(field_names(ModelConfig)) - {"preset", "initial_model"}
        == set(field_names(TransformerConfig)) - sizes
    )


def test_overrides_are_checked() -> None:
    with pytest.raises(ValueError, match=r"`hidden_dim` must be at least 1\. Received: hidden_dim=-8\."):
        ModelConfig(hidden_dim=-8)
    with pytest.raises(ValueError, match=r"`dropout` must be at least 0 and below 1\. Received: dropout=1\."):
        ModelConfig(dropout=1)
