"""The layers of a Transformer, made from its options."""

from typing import Any

import keras

from keras_transformer.layers import Decoder, Encoder, OutputProjection, PositionEncoding, TokenEmbedding
from keras_transformer.layers.validation import check_heads, check_positive, check_rates


def check_options(config: dict[str, Any]) -> None:
    """Refuse a configuration before any weight is made.

    Args:
        config: each constructor argument's name and value.

    Raises:
        TypeError: a size that is not an integer, a rate that is not a number.
        ValueError: see `Transformer`.
    """
    sizes = ("source_vocabulary_size", "target_vocabulary_size", "num_layers", "hidden_dim")
    depths = [name for name in ("num_encoder_layers", "num_decoder_layers") if config[name] is not None]
    for name in (*sizes, *depths, "num_heads", "intermediate_dim"):
        check_positive(**{name: config[name]})
    for name in ("dropout", "attention_dropout", "intermediate_dropout"):
        check_rates(**{name: config[name]})
    check_heads(config["num_heads"], config["hidden_dim"])
    source, target = config["source_vocabulary_size"], config["target_vocabulary_size"]
    if config["share_embeddings"] and source != target:
        raise ValueError(
            "`share_embeddings` needs vocabularies of the same size. Received: "
            f"source_vocabulary_size={source}, target_vocabulary_size={target}."
        )


def build_parts(config: dict[str, Any], dtype: Any) -> dict[str, keras.layers.Layer]:
    """Make the layers, not yet connected.

    Args:
        config: each constructor argument's name and value.
        dtype: the dtype or dtype policy of every layer; None for Keras's own.

    Returns:
        Each layer by the name of the model's attribute. With shared
        embeddings two names stand for one layer.
    """
    block_options = {
        name: config[name]
        for name in (
            "num_heads",
            "intermediate_dim",
            "activation",
            "dropout",
            "attention_dropout",
            "intermediate_dropout",
            "norm_first",
        )
    }
    encoder_depth = config["num_encoder_layers"] or config["num_layers"]
    decoder_depth = config["num_decoder_layers"] or config["num_layers"]
    target_size, width = config["target_vocabulary_size"], config["hidden_dim"]
    target_embedding = TokenEmbedding(target_size, width, dtype=dtype, name="target_embedding")
    source_embedding = target_embedding
    if not config["share_embeddings"]:
        source_size = config["source_vocabulary_size"]
        source_embedding = TokenEmbedding(source_size, width, dtype=dtype, name="source_embedding")
    return {
        "source_embedding": source_embedding,
        "target_embedding": target_embedding,
        "position_encoding": PositionEncoding(dtype=dtype, name="position_encoding"),
        "embedding_dropout": keras.layers.Dropout(config["dropout"], dtype=dtype, name="embedding_dropout"),
        "encoder": Encoder(encoder_depth, **block_options, dtype=dtype, name="encoder"),
        "decoder": Decoder(decoder_depth, **block_options, dtype=dtype, name="decoder"),
        "output_projection": OutputProjection(
            target_size,
            embedding=target_embedding if config["tie_output"] else None,
            dtype=dtype,
            name="output_projection",
        ),
    }
