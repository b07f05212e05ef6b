"""Small models with weights that matter everywhere, and CTranslate2 beside them."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt

BASE = {"num_layers": 2, "hidden_dim": 12, "num_heads": 3, "intermediate_dim": 17}
BANNED = [0, 1, 2]
END = 3


def draw_weights(model: keras.Model, seed: int) -> None:
    """Draw biases and scales too, which start as zeros and ones, and larger kernels."""
    rng = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        noise = 0.2 * rng.normal(size=weight.shape)
        value = ops.convert_to_numpy(weight)
        is_kernel = "kernel" in weight.path or "embeddings" in weight.path or "marks" in weight.path
        weight.assign(1.5 * value if is_kernel else value + noise)


def steer_logits(model: keras.Model, end_logit: float) -> None:
    """Make the banned tokens impossible and the end likely: feature 0 of every state becomes 1."""
    stack = model.decoder
    norm = (
        stack.final_normalization if model.config.norm_first else stack.layers[-1].feed_forward_residual.norm
    )
    for weight, first in ((norm.gamma, 0.0), (norm.beta, 1.0)):
        values = ops.convert_to_numpy(weight).copy()
        values[0] = first
        weight.assign(values)
    tied = model.output_projection.embedding
    weight = model.output_projection.kernel if tied is None else tied.embeddings
    rows = ops.convert_to_numpy(weight).copy()
    table = rows.T if tied is None else rows  # (v, d)
    table[:, 0] = 0.0
    table[BANNED, 0] = -60.0
    table[END, 0] = end_logit
    weight.assign(rows)


@pytest.fixture
def make_model() -> Callable[..., Any]:
    """Make a model from the options that differ; `end_logit` makes its search end soon."""

    def make(seed: int = 0, end_logit: float | None = None, **options: Any) -> Any:
        keras.utils.set_random_seed(seed)
        source_size = 41 if options.get("share_embeddings") else 37
        model = kt.Transformer(source_size, 41, **{**BASE, **options})
        draw_weights(model, seed)
        if end_logit is not None:
            steer_logits(model, end_logit)
        return model

    return make
