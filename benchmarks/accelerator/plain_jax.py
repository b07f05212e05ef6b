"""The same model and training step in plain JAX, as the reference of speed for `training.py`.

The post-norm Transformer of the paper (Vaswani et al. 2017) with one table of embeddings, label smoothing and
Adam. It reads the weights of a `kt.Transformer` by their paths, so that both have the same loss.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Weights = dict[str, Any]


def norm(w: Weights, name: str, x: Any) -> Any:
    """Normalize the last axis in float32."""
    wide = x.astype("float32")
    mean = wide.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt(jnp.square(wide - mean).mean(-1, keepdims=True) + 1e-6)
    return ((wide - mean) * scale * w[f"{name}/gamma"] + w[f"{name}/beta"]).astype(x.dtype)


def attend(w: Weights, name: str, query: Any, keys: Any, mask: Any) -> Any:
    """Attend from `query` to `keys`, with the mask `(b or 1, 1, t, s)`."""

    def heads(part: str, x: Any) -> Any:
        return jnp.einsum("btd,dhk->bthk", x, w[f"{name}/{part}/kernel"]) + w[f"{name}/{part}/bias"]

    q, k, v = heads("query", query), heads("key", keys), heads("value", keys)
    logits = jnp.einsum("bthk,bshk->bhts", q * q.shape[-1] ** -0.5, k).astype("float32")
    weights = jax.nn.softmax(jnp.where(mask, logits, -1e30), axis=-1).astype(v.dtype)
    outputs = jnp.einsum("bhts,bshk->bthk", weights, v)
    return (
        jnp.einsum("bthk,hkd->btd", outputs, w[f"{name}/attention_output/kernel"])
        + w[f"{name}/attention_output/bias"]
    )


def feed_forward(w: Weights, name: str, x: Any) -> Any:
    """Apply two linear maps with a ReLU between them."""
    inner = jax.nn.relu(x @ w[f"{name}/inner/kernel"] + w[f"{name}/inner/bias"])
    return inner @ w[f"{name}/outer/kernel"] + w[f"{name}/outer/bias"]


def drop(x: Any, rate: float, key: Any) -> Any:
    """Drop numbers at random."""
    return x if rate == 0 else jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)


def positions(length: int, width: int) -> Any:
    """Return alternating sines and cosines, `(t, d)`."""
    rates = 10000.0 ** (-np.arange(0, width, 2) / width)
    angles = np.arange(length)[:, None] * rates
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, width).astype("float32")


def loss(
    w: Weights, source: Any, target: Any, labels: Any, key: Any, *, layers: int, rate: float, dtype: str
) -> Any:
    """Return the mean cross-entropy with a label smoothing of 0.1."""
    w = {name: value.astype(dtype) for name, value in w.items()}
    table = next(value for name, value in w.items() if name.endswith("embeddings"))
    width = table.shape[1]
    keys = iter(jax.random.split(key, 5 * layers + 2))

    def embed(ids: Any) -> Any:
        x = table[ids] * jnp.asarray(width**0.5, dtype) + jnp.asarray(positions(ids.shape[1], width), dtype)
        return drop(x, rate, next(keys))

    def residual(name: str, x: Any, y: Any) -> Any:
        return norm(w, f"{name}/norm", x + drop(y, rate, next(keys)))

    seen = (source != 0)[:, None, None, :]
    causal = jnp.tril(jnp.ones((target.shape[1],) * 2, bool))[None, None] & (target != 0)[:, None, None, :]
    x, y = embed(source), embed(target)
    for i in range(1, layers + 1):
        at = f"encoder/layer_{i}"
        x = residual(f"{at}/self_attention_residual", x, attend(w, f"{at}/self_attention", x, x, seen))
        x = residual(f"{at}/feed_forward_residual", x, feed_forward(w, f"{at}/feed_forward", x))
    for i in range(1, layers + 1):
        at = f"decoder/layer_{i}"
        y = residual(f"{at}/self_attention_residual", y, attend(w, f"{at}/self_attention", y, y, causal))
        y = residual(f"{at}/cross_attention_residual", y, attend(w, f"{at}/cross_attention", y, x, seen))
        y = residual(f"{at}/feed_forward_residual", y, feed_forward(w, f"{at}/feed_forward", y))
    logs = jax.nn.log_softmax((y @ table.T).astype("float32"))
    right = jnp.take_along_axis(logs, labels[..., None], axis=-1)[..., 0]
    each = -(0.9 * right + 0.1 * logs.mean(-1))
    is_token = labels != 0
    return (each * is_token).sum() / is_token.sum()


def step(
    state: tuple[Weights, Weights, Weights, Any], batch: Any, *, layers: int, rate: float, dtype: str
) -> Any:
    """Train on a batch by Adam; return the state and the loss."""
    w, first, second, count = state
    key = jax.random.fold_in(jax.random.key(0), count)
    value, gradients = jax.value_and_grad(loss)(w, *batch, key, layers=layers, rate=rate, dtype=dtype)
    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.98 * v + 0.02 * g * g, second, gradients)
    factor = 1e-4 * jnp.sqrt(1 - 0.98**count) / (1 - 0.9**count)
    w = jax.tree.map(lambda x, m, v: x - factor * m / (jnp.sqrt(v) + 1e-9), w, first, second)
    return (w, first, second, count), value
