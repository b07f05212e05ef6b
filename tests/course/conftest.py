"""Helpers that the tests of the course share."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest

from helpers import named_weights


def _randomize(layer: Any) -> Any:
    """Give every weight random numbers; what scales stays near one, lest it hide differences."""
    generator = np.random.default_rng(0)
    centers = [float(weight.name == "gamma") for weight in layer.weights]
    layer.set_weights(
        [generator.normal(center, 0.5, w.shape) for center, w in zip(centers, layer.weights, strict=True)]
    )
    return layer


def _attend(weights: list[Any], query: Any, memory: Any, mask: Any) -> tuple[Any, Any]:
    """Multi-head attention in NumPy; weights in the order of the layer."""
    named = named_weights(weights)
    q, k, v = (
        np.einsum("btd,dhk->bhtk", x, named[f"{name}_kernel"]) + named[f"{name}_bias"][:, None]
        for name, x in (("query", query), ("key", memory), ("value", memory))
    )
    logits = np.where(mask, q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]), -1e9)
    scores = np.exp(logits - logits.max(-1, keepdims=True))
    scores = scores / scores.sum(-1, keepdims=True)
    return np.einsum("bhtk,hkd->btd", scores @ v, named["output_kernel"]) + named["output_bias"], scores


def _normalize(layer: Any, x: Any) -> Any:
    """Layer normalization in NumPy."""
    gamma, beta = layer.get_weights()
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6) * gamma + beta


@pytest.fixture
def randomize() -> Callable[[Any], Any]:
    """Gives every weight of a built layer random numbers."""
    return _randomize


@pytest.fixture
def compiled() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compiles a function with `tf.function`; skips the test on other backends."""
    if keras.backend.backend() != "tensorflow":
        pytest.skip("needs the TensorFlow backend")
    return pytest.importorskip("tensorflow").function


@pytest.fixture
def reference() -> SimpleNamespace:
    """Attention and normalization in NumPy, with the weights of our layers."""
    return SimpleNamespace(attend=_attend, normalize=_normalize)
