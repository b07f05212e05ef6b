"""The models of the checks, with the same weights on every backend and machine."""

from typing import Any

import numpy as np

import keras_transformer as kt

V = 29
SIZES = {"num_layers": 2, "hidden_dim": 32, "num_heads": 4, "intermediate_dim": 64, "dropout": 0.0}
# For checks in which a second layer only takes time: XLA compiles each shape of a step for seconds.
ONE_LAYER = {**SIZES, "num_layers": 1}
# Every option of a layer that has another formula. Each is one model.
OPTIONS: dict[str, dict[str, Any]] = {
    "base": {},
    "pre-norm": {"norm_first": True},
    "RMS": {"normalization": "rms", "norm_first": True},
    "normalized embeddings": {"normalize_embeddings": True},
    "concatenated sines": {"positions": "sinusoidal_concatenated"},
    "learned positions": {"positions": "learned", "max_length": 16},
    "rotary positions": {"positions": "rotary"},
    "relative positions": {"positions": "relative"},
    "two heads of keys": {"num_key_value_heads": 2},
    "one head of keys": {"num_key_value_heads": 1},
    "wide heads": {"head_dim": 16},
    "gated": {"gated": True, "activation": "silu"},
    "GELU": {"activation": "gelu"},
    "no biases": {"use_bias": False},
    "untied output with a bias": {"tie_output": False, "output_bias": True},
    "frames": {"encoder_feature_dim": 5},
    "convolved frames": {"encoder_feature_dim": 5, "source_convolutions": True},
}


def with_weights(model: Any, seed: int = 0, scale: float = 0.3) -> Any:
    """Give a model random weights, and return it."""
    rng = np.random.default_rng(seed)
    model.set_weights(
        [rng.normal(scale=scale, size=weight.shape).astype("float32") for weight in model.weights]
    )
    return model


def make(name: str, dtype: str | None = None) -> Any:
    """Make the model of an option."""
    options = {**SIZES, **OPTIONS[name]}
    source = None if "encoder_feature_dim" in options else V
    return with_weights(kt.Transformer(source, V, dtype=dtype, **options))


def inputs_of(model: Any, batch_size: int = 3, length: int = 11) -> dict[str, Any]:
    """Return sources and targets with padding; the lengths of the rows differ."""
    rng = np.random.default_rng(1)
    lengths = np.linspace(length, length // 3 + 1, batch_size).astype(int)
    is_token = np.arange(length) < lengths[:, None]
    source = np.where(is_token, rng.integers(4, V, (batch_size, length)), 0).astype("int32")
    target = np.where(is_token, rng.integers(4, V, (batch_size, length)), 0).astype("int32")[:, :-2]
    width = model.config.encoder_feature_dim
    if width is None:
        return {"encoder_token_ids": source, "decoder_token_ids": target}
    frames = rng.normal(size=(batch_size, length, width)).astype("float32")
    return {"encoder_features": frames, "encoder_padding_mask": is_token, "decoder_token_ids": target}


def preset(name: str, dtype: str, vocabulary_size: int = 32000, **options: Any) -> Any:
    """Make an untrained model of a known size, with one table of embeddings."""
    options = {"share_embeddings": True, "dropout": 0.1, "dtype": dtype, **options}
    return kt.Transformer.from_preset(name, vocabulary_size, vocabulary_size, **options)


def batch(vocabulary_size: int, batch_size: int, length: int, seed: int = 0) -> tuple[dict[str, Any], Any]:
    """Return random inputs and labels without padding."""
    rng = np.random.default_rng(seed)
    source, target = (
        rng.integers(4, vocabulary_size, (batch_size, length)).astype("int32") for _ in range(2)
    )
    shifted = np.concatenate([np.full((batch_size, 1), 2, "int32"), target[:, :-1]], axis=1)
    return {"encoder_token_ids": source, "decoder_token_ids": shifted}, target
