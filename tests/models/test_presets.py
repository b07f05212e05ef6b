import re

import keras
import pytest

from keras_transformer import Transformer
from keras_transformer.models import preset

PAPER = {"base": (512, 2048, 8, 65e6), "big": (1024, 4096, 16, 213e6)}


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
        return int(model.count_params())


@pytest.mark.parametrize("name", ["tiny", "small", "base", "big"])
@pytest.mark.parametrize(
    ("options", "tables"),
    [
        ({}, 11 + 13),
        ({"tie_output": False}, 11 + 13 + 13),
        ({"tie_output": True, "norm_first": True}, 11 + 13 + 4),
    ],
)
def test_number_of_parameters(name: str, options: dict[str, bool], tables: int) -> None:
    sizes = preset(name)  # pre-norm stacks end with two more normalisations: 4 d
    expected = expected_parameters(
        sizes["num_layers"], sizes["hidden_dim"], sizes["intermediate_dim"], tables
    )
    assert count(name, 11, 13, **options) == expected


@pytest.mark.parametrize("name", ["base", "big"])
def test_sizes_of_the_paper(name: str) -> None:
    hidden_dim, intermediate_dim, num_heads, parameters = PAPER[name]
    sizes = preset(name)
    assert (sizes["num_layers"], sizes["hidden_dim"], sizes["num_heads"]) == (6, hidden_dim, num_heads)
    assert sizes["intermediate_dim"] == intermediate_dim
    counted = count(name, 37000, 37000, share_embeddings=True)
    assert counted == expected_parameters(6, hidden_dim, intermediate_dim, 37000)
    assert abs(counted / parameters - 1) < 0.04


def test_transformer_tiny() -> None:
    # Wu et al. give 2.57 million parameters, with a joint vocabulary of about 9,800.
    assert abs(count("tiny", 9800, 9800, share_embeddings=True) / 2.57e6 - 1) < 0.01


def test_a_preset_is_a_copy() -> None:
    preset("tiny")["num_layers"] = 99
    assert preset("tiny")["num_layers"] == 4


def test_overrides() -> None:
    model = Transformer.from_preset("tiny", 11, 13, num_layers=1, dropout=0.0)
    assert (model.config["num_layers"], model.config["dropout"]) == (1, 0.0)
    assert model.config["hidden_dim"] == 128


def test_unknown_preset() -> None:
    message = "`preset` must be one of tiny, small, base, big. Received: preset='huge'."
    with pytest.raises(ValueError, match=re.escape(message)):
        Transformer.from_preset("huge", 11, 13)
