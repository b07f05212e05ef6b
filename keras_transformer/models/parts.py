"""The layers of the models, made from their options and not yet connected."""

from typing import Any

import keras

from keras_transformer.layers import Decoder, Encoder, OutputProjection, TokenEmbedding
from keras_transformer.layers.normalization import Dropout
from keras_transformer.models.config import block_options, make_position_encoding
from keras_transformer.models.source import Pooling

Parts = dict[str, keras.layers.Layer]
"""Each layer by the name of the model's attribute."""


def transformer_parts(config: dict[str, Any], dtype: Any) -> Parts:
    """Make the layers of a `Transformer`.

    Args:
        config: each constructor argument's name and value.
        dtype: the dtype or dtype policy of every layer; None for Keras's own.

    Returns:
        The layers. With shared embeddings two names stand for one layer.
    """
    target_size, width = config["target_vocabulary_size"], config["hidden_dim"]
    target_embedding = TokenEmbedding(target_size, width, dtype=dtype, name="target_embedding")
    source: Parts = {"source_embedding": target_embedding}
    if not config["share_embeddings"]:
        source = source_part(config["source_vocabulary_size"], width, dtype)
    encoder_depth = config["num_encoder_layers"] or config["num_layers"]
    decoder_depth = config["num_decoder_layers"] or config["num_layers"]
    options = block_options(config)
    return {
        **source,
        "target_embedding": target_embedding,
        **input_parts(config, dtype),
        "encoder": Encoder(encoder_depth, **options, dtype=dtype, name="encoder"),
        "decoder": Decoder(decoder_depth, **options, dtype=dtype, name="decoder"),
        "output_projection": projection_part(
            target_size, target_embedding if config["tie_output"] else None, dtype
        ),
    }


def causal_parts(config: dict[str, Any], dtype: Any) -> Parts:
    """Make the layers of a `CausalLM`.

    Args:
        config: each constructor argument's name and value.
        dtype: as for `transformer_parts`.

    Returns:
        The layers.
    """
    size = config["vocabulary_size"]
    embedding = TokenEmbedding(size, config["hidden_dim"], dtype=dtype, name="token_embedding")
    return {
        "token_embedding": embedding,
        **input_parts(config, dtype),
        "decoder": Decoder(config["num_layers"], **block_options(config), dtype=dtype, name="decoder"),
        "output_projection": projection_part(size, embedding if config["tie_output"] else None, dtype),
    }


def encoder_parts(config: dict[str, Any], dtype: Any) -> Parts:
    """Make the layers of an `EncoderModel`.

    Args:
        config: each constructor argument's name and value.
        dtype: as for `transformer_parts`.

    Returns:
        The layers; `pooling` and `output_projection` where they are asked for.
    """
    num_outputs = config["num_outputs"]
    parts = {
        **source_part(config["vocabulary_size"], config["hidden_dim"], dtype),
        **input_parts(config, dtype),
        "encoder": Encoder(config["num_layers"], **block_options(config), dtype=dtype, name="encoder"),
    }
    if config["pooling"] is not None:
        parts["pooling"] = Pooling(config["pooling"], dtype=dtype, name="pooling")
    if config["tie_output"]:
        parts["output_projection"] = projection_part(num_outputs, parts["source_embedding"], dtype)
    elif num_outputs is not None:
        parts["output_projection"] = keras.layers.Dense(num_outputs, dtype=dtype, name="output_projection")
    return parts


def source_part(vocabulary_size: int | None, hidden_dim: int, dtype: Any) -> Parts:
    """Make what turns a source into vectors: a table for token ids, a kernel for frames.

    Args:
        vocabulary_size: the number of ids; None where the source is frames.
        hidden_dim: the width of the vectors, `d`.
        dtype: as for `transformer_parts`.

    Returns:
        `source_embedding` or `source_projection`.
    """
    if vocabulary_size is None:
        projection = keras.layers.Dense(hidden_dim, dtype=dtype, name="source_projection")
        return {"source_projection": projection}
    embedding = TokenEmbedding(vocabulary_size, hidden_dim, dtype=dtype, name="source_embedding")
    return {"source_embedding": embedding}


def input_parts(config: dict[str, Any], dtype: Any) -> Parts:
    """Make what stands between vectors and a stack: positions and dropout.

    Args:
        config: each constructor argument's name and value.
        dtype: as for `transformer_parts`.

    Returns:
        `position_encoding` and `embedding_dropout`.
    """
    return {
        "position_encoding": make_position_encoding(config["positions"], config["max_length"], dtype),
        "embedding_dropout": Dropout(config["dropout"], dtype=dtype, name="embedding_dropout"),
    }


def projection_part(vocabulary_size: int, embedding: TokenEmbedding | None, dtype: Any) -> OutputProjection:
    """Make what gives each token a logit.

    Args:
        vocabulary_size: the number of logits, `v`.
        embedding: the table that is used; None for a kernel of its own.
        dtype: as for `transformer_parts`.

    Returns:
        The projection.
    """
    return OutputProjection(vocabulary_size, embedding=embedding, dtype=dtype, name="output_projection")
