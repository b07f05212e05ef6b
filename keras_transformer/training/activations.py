"""Bytes of the activations that the forward pass leaves for the backward pass, by part of a model.

How often a tensor is kept was read from the buffers of XLA (JAX 0.10, on a processor) at the moment in which
a step needs the most; `tests/training/test_memory_plan.py` holds the sums to XLA's.
"""

import re
from typing import Any

import keras

from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.multi_head_attention import MultiHeadAttention

_FLOAT32 = 4
# Of a number that may be dropped. XLA keeps the two random words of 32 bits, and computes the mask again.
_RANDOM = 8
_ONE_FORMULA = (keras.activations.relu, keras.activations.linear)


def dtype_bytes(dtype: str) -> float:
    """Return the bytes of a number."""
    digits = re.search(r"\d+", dtype)
    return int(digits[0]) / 8 if digits else 1


def embedding_activations(model: keras.Model, num_positions: int) -> float:
    """Count what is kept of vectors with their positions, `(b, t, d)`, on all sides together."""
    config, width = model.config, dtype_bytes(model.position_encoding.compute_dtype)
    # The vectors, and what is added to them.
    copies = 1 if config.positions in ("rotary", "relative") else 2
    normalized = _normalization(config.normalization, width) if config.normalize_embeddings else 0
    return num_positions * config.hidden_dim * (copies * width + normalized + _random(config.dropout))


def layer_activations(layer: Any, batch_size: int, length: int, source_length: int = 0) -> float:
    """Count what is kept in an encoder layer, or in a decoder layer whose source has a length."""
    attention, width = layer.self_attention, dtype_bytes(layer.compute_dtype)
    size = batch_size * length * attention.query_dense.kernel.shape[0]  # b * t * d
    # The inputs, and those of keys and values, without what padding holds.
    total = 2 * width * size
    total += _attention(attention, batch_size, length, length)
    total += size * _residual(layer.self_attention_residual)
    if getattr(layer, "cross_attention", None) is not None:
        total += _attention(layer.cross_attention, batch_size, length, source_length)
        total += size * _residual(layer.cross_attention_residual)
    total += batch_size * length * _feed_forward(layer.feed_forward)
    return total + size * _residual(layer.feed_forward_residual)


def normalization_activations(layer: keras.layers.Layer, num_positions: int, hidden_dim: int) -> float:
    """Count what is kept of a normalization at the end of a stack."""
    kind = "rms" if isinstance(layer, keras.layers.RMSNormalization) else "layer"
    return num_positions * hidden_dim * _normalization(kind, dtype_bytes(layer.compute_dtype))


def output_activations(num_logits: int, dtype: str) -> float:
    """Count what is there of logits when the backward pass begins: their gradient, in two layouts."""
    return num_logits * (_FLOAT32 + dtype_bytes(dtype))


def _attention(layer: MultiHeadAttention, b: int, t: int, s: int) -> float:
    h, k, width = layer.num_heads, layer.key_dim, dtype_bytes(layer.compute_dtype)
    v = layer.value_dim or k
    # Queries (b, t, h, k), keys and values (b, s, h, k), repeated where several heads share one, and outputs.
    heads = width * b * h * (t * k + s * (k + v) + t * v)
    # Scores (b, h, t, s): exponentials and quotients in float32, and what the values are multiplied with.
    return heads + b * h * t * s * (2 * _FLOAT32 + width + _random(layer.dropout))


def _residual(layer: Any) -> float:
    """Count the bytes of each number of `(b, t, d)`."""
    width = dtype_bytes(layer.compute_dtype)
    kind = "rms" if isinstance(layer.norm, keras.layers.RMSNormalization) else "layer"
    # The sum, its normalization, and dropout.
    return width + _normalization(kind, width) + _random(layer.output_dropout.rate)


def _normalization(kind: str, width: float) -> float:
    # Keras normalizes in float32, and keeps two factors; the scaled output is the next layer's input.
    return 2 * _FLOAT32 + (width if kind == "layer" else 0)


def _feed_forward(layer: FeedForward) -> float:
    """Count the bytes of each position."""
    # Before and after the activation, and a factor of it where it is no choice between two lines; the gate,
    # and its product.
    copies = 2 + (layer.activation not in _ONE_FORMULA) + 2 * layer.gated
    dropped = dtype_bytes(layer.compute_dtype) + _RANDOM if layer.dropout else 0
    return layer.intermediate_dim * (copies * dtype_bytes(layer.compute_dtype) + dropped)


def _random(rate: float) -> int:
    return _RANDOM if rate else 0
