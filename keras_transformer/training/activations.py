"""Bytes of activations that the forward pass keeps for the backward pass, by part of a model.

The counts were read from the buffers of XLA (JAX 0.10 on a CPU) at the peak of a step;
`tests/training/test_memory_plan.py` compares the sums with XLA's.
"""

import re
from typing import Any

import keras

from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.multi_head_attention import MultiHeadAttention

_FLOAT32 = 4
# Bytes per element with dropout: XLA keeps two random 32-bit words and recomputes the mask.
_RANDOM = 8
_ONE_FORMULA = (keras.activations.relu, keras.activations.linear)


def dtype_bytes(dtype: str) -> float:
    """Return the bytes of one element."""
    digits = re.search(r"\d+", dtype)
    return int(digits[0]) / 8 if digits else 1


def embedding_activations(model: keras.Model, num_positions: int) -> float:
    """Return the bytes kept for the embeddings `(b, t, d)` of all sides, with their positions."""
    config, width = model.config, dtype_bytes(model.position_encoding.compute_dtype)
    # The embeddings, and the position encodings added to them.
    copies = 2 if config.adds_positions else 1
    normalized = _normalization(config.normalization, width) if config.normalize_embeddings else 0
    return num_positions * config.hidden_dim * (copies * width + normalized + _random(config.dropout))


def layer_activations(layer: Any, batch_size: int, length: int, source_length: int = 0) -> float:
    """Return the bytes kept in an encoder layer, or in a decoder layer with this source length."""
    attention, width = layer.self_attention, dtype_bytes(layer.compute_dtype)
    size = batch_size * length * attention.query_dense.kernel.shape[0]  # b * t * d
    # Inputs of the layer, and masked inputs of keys and values.
    total = 2 * width * size
    total += _attention(attention, batch_size, length, length)
    total += size * _residual(layer.self_attention_residual)
    if getattr(layer, "cross_attention", None) is not None:
        total += _attention(layer.cross_attention, batch_size, length, source_length)
        total += size * _residual(layer.cross_attention_residual)
    total += batch_size * length * _feed_forward(layer.feed_forward)
    return total + size * _residual(layer.feed_forward_residual)


def normalization_activations(layer: keras.layers.Layer, num_positions: int, hidden_dim: int) -> float:
    """Return the bytes kept for the normalization at the end of a stack."""
    kind = "rms" if isinstance(layer, keras.layers.RMSNormalization) else "layer"
    return num_positions * hidden_dim * _normalization(kind, dtype_bytes(layer.compute_dtype))


def output_activations(num_logits: int, dtype: str) -> float:
    """Return the bytes of the logits' gradient, in two layouts, when the backward pass starts."""
    return num_logits * (_FLOAT32 + dtype_bytes(dtype))


def _attention(layer: MultiHeadAttention, b: int, t: int, s: int) -> float:
    h, k, width = layer.num_heads, layer.key_dim, dtype_bytes(layer.compute_dtype)
    v = layer.value_dim or k
    # Queries (b, t, h, k), keys and values (b, s, h, k) (repeated if heads share them), and outputs.
    heads = width * b * h * (t * k + s * (k + v) + t * v)
    # Scores (b, h, t, s): exponentials and quotients in float32, and the factors of the values.
    return heads + b * h * t * s * (2 * _FLOAT32 + width + _random(layer.dropout))


def _residual(layer: Any) -> float:
    """Return the bytes per element of `(b, t, d)`."""
    width = dtype_bytes(layer.compute_dtype)
    kind = "rms" if isinstance(layer.norm, keras.layers.RMSNormalization) else "layer"
    # The sum, its normalization, and dropout.
    return width + _normalization(kind, width) + _random(layer.output_dropout.rate)


def _normalization(kind: str, width: float) -> float:
    # Keras normalizes in float32 and keeps two factors; the next layer counts the scaled output.
    return 2 * _FLOAT32 + (width if kind == "layer" else 0)


def _feed_forward(layer: FeedForward) -> float:
    """Return the bytes per position."""
    # Before and after the activation, a factor of its gradient unless it is piecewise linear, and for gated
    # networks the gate and the product.
    copies = 2 + (layer.activation not in _ONE_FORMULA) + 2 * layer.gated
    dropped = dtype_bytes(layer.compute_dtype) + _RANDOM if layer.dropout else 0
    return layer.intermediate_dim * (copies * dtype_bytes(layer.compute_dtype) + dropped)


def _random(rate: float) -> int:
    return _RANDOM if rate else 0
