from typing import Any

import keras
import pytest

from keras_transformer.layers import OutputProjection
from keras_transformer.models.parts import causal_parts, encoder_parts, source_part, transformer_parts

BLOCK: dict[str, Any] = {
    "num_heads": 2,
    "intermediate_dim": 17,
    "activation": "relu",
    "gated": True,
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "intermediate_dropout": 0.3,
    "norm_first": True,
    "normalization": "rms",
    "layer_norm_epsilon": 1e-5,
    "num_key_value_heads": 1,
    "positions": "rotary",
}
SIZES: dict[str, Any] = {"num_layers": 2, "hidden_dim": 8, "max_length": None, **BLOCK}
TRANSFORMER: dict[str, Any] = {
    "source_vocabulary_size": 11,
    "target_vocabulary_size": 13,
    "num_encoder_layers": None,
    "num_decoder_layers": None,
    "share_embeddings": False,
    "tie_output": True,
    **SIZES,
}
CAUSAL = {"vocabulary_size": 13, "tie_output": True, **SIZES}
ENCODER = {"vocabulary_size": 13, "num_outputs": None, "pooling": None, "tie_output": False, **SIZES}


def test_depths() -> None:
    parts: Any = transformer_parts({**TRANSFORMER, "num_encoder_layers": 3}, None)
    assert (parts["encoder"].num_layers, parts["decoder"].num_layers) == (3, 2)
    parts = transformer_parts({**TRANSFORMER, "num_decoder_layers": 1}, None)
    assert (parts["encoder"].num_layers, parts["decoder"].num_layers) == (2, 1)


@pytest.mark.parametrize(
    ("make", "config", "stacks"),
    [
        (transformer_parts, TRANSFORMER, ("encoder", "decoder")),
        (causal_parts, CAUSAL, ("decoder",)),
        (encoder_parts, {**ENCODER, "num_outputs": 3, "pooling": "mean"}, ("encoder",)),
    ],
)
def test_options_and_policy_reach_every_part(make: Any, config: Any, stacks: tuple[str, ...]) -> None:
    parts = make(config, "mixed_bfloat16")
    for name in stacks:
        options = parts[name].block_options()
        assert {key: options[key] for key in BLOCK} == BLOCK
        assert parts[name].num_layers == 2
    assert parts["embedding_dropout"].rate == 0.1
    assert {part.dtype_policy.name for part in parts.values()} == {"mixed_bfloat16"}
    assert all(part.name == name for name, part in parts.items())


@pytest.mark.parametrize("tie_output", [False, True])
@pytest.mark.parametrize("share_embeddings", [False, True])
def test_sharing_and_tying(share_embeddings: bool, tie_output: bool) -> None:
    options = {**TRANSFORMER, "share_embeddings": share_embeddings, "tie_output": tie_output}
    parts: Any = transformer_parts({**options, "source_vocabulary_size": 13}, None)
    assert (parts["source_embedding"] is parts["target_embedding"]) == share_embeddings
    assert (parts["output_projection"].embedding is parts["target_embedding"]) == tie_output


@pytest.mark.parametrize("tie_output", [False, True])
def test_tied_output_of_a_decoder_alone(tie_output: bool) -> None:
    parts: Any = causal_parts({**CAUSAL, "tie_output": tie_output}, None)
    assert (parts["output_projection"].embedding is parts["token_embedding"]) == tie_output


def test_what_an_encoder_has_on_top() -> None:
    assert not {"pooling", "output_projection"} & set(encoder_parts(ENCODER, None))
    parts: Any = encoder_parts({**ENCODER, "pooling": "first", "num_outputs": 3}, None)
    assert (parts["pooling"].mode, parts["output_projection"].units) == ("first", 3)
    parts = encoder_parts({**ENCODER, "num_outputs": 13, "tie_output": True}, None)
    assert isinstance(parts["output_projection"], OutputProjection)
    assert parts["output_projection"].embedding is parts["source_embedding"]


def test_source_part() -> None:
    embedding: Any = source_part(11, 8, None)["source_embedding"]
    assert (embedding.vocabulary_size, embedding.hidden_dim) == (11, 8)
    projection = source_part(None, 8, None)["source_projection"]
    assert isinstance(projection, keras.layers.Dense)
    assert (projection.units, projection.name) == (8, "source_projection")
