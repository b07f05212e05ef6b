import re
from typing import Any

import pytest

from keras_transformer.models.parts import build_parts, check_options

OPTIONS: dict[str, Any] = {
    "source_vocabulary_size": 11,
    "target_vocabulary_size": 13,
    "num_layers": 2,
    "num_encoder_layers": None,
    "num_decoder_layers": None,
    "hidden_dim": 8,
    "num_heads": 2,
    "intermediate_dim": 17,
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "intermediate_dropout": 0.3,
    "activation": "relu",
    "norm_first": False,
    "share_embeddings": False,
    "tie_output": True,
}
SIZES = [name for name in OPTIONS if name.startswith(("num", "source", "target", "hidden"))]


def test_good_options_pass() -> None:
    check_options(OPTIONS)


@pytest.mark.parametrize("name", [*SIZES, "intermediate_dim"])
def test_sizes_not_above_zero(name: str) -> None:
    message = f"`{name}` must be above zero. Received: {name}=0."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_options({**OPTIONS, name: 0})


def test_sizes_that_are_no_integers() -> None:
    with pytest.raises(TypeError, match=re.escape("must be an integer. Received: num_layers=2.5.")):
        check_options({**OPTIONS, "num_layers": 2.5})


@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "intermediate_dropout"])
@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_rates_out_of_range(name: str, rate: float) -> None:
    message = f"`{name}` must be at least 0 and below 1. Received: {name}={rate}."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_options({**OPTIONS, name: rate})


def test_heads_that_do_not_divide_the_width() -> None:
    message = "`num_heads` must divide `hidden_dim`. Received: num_heads=3, hidden_dim=8."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_options({**OPTIONS, "num_heads": 3})


def test_shared_embeddings_of_different_vocabularies() -> None:
    message = "same size. Received: source_vocabulary_size=11, target_vocabulary_size=13."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_options({**OPTIONS, "share_embeddings": True})


def test_depths() -> None:
    parts = build_parts({**OPTIONS, "num_encoder_layers": 3}, None)
    assert (parts["encoder"].num_layers, parts["decoder"].num_layers) == (3, 2)
    parts = build_parts({**OPTIONS, "num_decoder_layers": 1}, None)
    assert (parts["encoder"].num_layers, parts["decoder"].num_layers) == (2, 1)


def test_options_reach_the_stacks() -> None:
    parts = build_parts(OPTIONS, "mixed_bfloat16")
    for name in ("encoder", "decoder"):
        options = parts[name].block_options()
        assert {key: options[key] for key in options if key in OPTIONS} == {
            key: OPTIONS[key] for key in options if key in OPTIONS
        }
    assert parts["embedding_dropout"].rate == 0.1
    assert {part.dtype_policy.name for part in parts.values()} == {"mixed_bfloat16"}


@pytest.mark.parametrize("tie_output", [False, True])
@pytest.mark.parametrize("share_embeddings", [False, True])
def test_sharing_and_tying(share_embeddings: bool, tie_output: bool) -> None:
    options = {**OPTIONS, "share_embeddings": share_embeddings, "tie_output": tie_output}
    parts = build_parts({**options, "source_vocabulary_size": 13}, None)
    assert (parts["source_embedding"] is parts["target_embedding"]) == share_embeddings
    assert (parts["output_projection"].embedding is parts["target_embedding"]) == tie_output
