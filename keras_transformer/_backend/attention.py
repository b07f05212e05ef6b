"""Attention operations with a faster implementation on some backends."""

from collections.abc import Callable
from functools import partial

import keras
from keras import KerasTensor, ops

from keras_transformer._arguments import known_sizes
from keras_transformer._backend.compiler import _in_compiler
from keras_transformer._backend.indexing import dynamic_shape
from keras_transformer.types import MINUS_INFINITY, Tensor


def masked_softmax(logits: Tensor, mask: Tensor | None, *, training: bool | None = None) -> Tensor:
    """Compute `where(mask, softmax(where(mask, logits, -inf)), 0)` over the last axis.

    Args:
        logits: float32 `(b, h, t, s)`.
        mask: Booleans that broadcast to the logits; None for all True.
        training: Whether gradients will be computed; TensorFlow then computes them in fewer operations.

    Returns:
        float32 `(b, h, t, s)`. Each row sums to one, or is all zeros if its mask is all False.
    """
    if mask is None:
        return _softmax(logits)
    is_open = None in tuple(mask.shape)
    if is_open and None not in known_sizes(logits.shape):
        # With known logits TensorFlow would skip the reshape below, which checks the mask's shape.
        mask = ops.broadcast_to(mask, logits.shape)
    if training and keras.backend.backend() == "tensorflow" and not isinstance(logits, KerasTensor):
        scores = _softmax_with_gradient(logits, mask)
    else:
        scores = _softmax_where(mask, logits)
    # A mask of unknown sizes may have enlarged the scores; the reshape then raises an error.
    return ops.reshape(scores, dynamic_shape(logits)) if is_open else scores


def _softmax_where(mask: Tensor, logits: Tensor) -> Tensor:
    scores = _softmax(ops.where(mask, logits, MINUS_INFINITY))
    return ops.where(mask, scores, 0.0)  # a fully masked row was uniform before


def _softmax_with_gradient(logits: Tensor, mask: Tensor) -> Tensor:
    @ops.custom_gradient
    def softmax(logits: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        scores = _softmax_where(mask, logits)

        def gradient(upstream: Tensor) -> Tensor:
            # Needs no mask, because it is zero where the scores are zero.
            products = upstream * scores
            return products - scores * ops.sum(products, axis=-1, keepdims=True)

        return scores, gradient

    return softmax(logits)


def _softmax(logits: Tensor) -> Tensor:
    if logits.shape[-1] == 1:
        # Keras warns about a softmax over one element; here a single key correctly gets weight 1.
        # `logits - logits` makes the gradient zero instead of None.
        return ops.exp(logits - logits)
    return ops.softmax(logits, axis=-1)


def fused_attention(key_dim: int, value_dim: int, dropout: float = 0.0) -> Callable[..., Tensor] | None:
    """Return a fused attention function, or None if the backend has none for these options.

    It computes `dropout(masked_softmax(query @ key.T / sqrt(k), mask)) @ value` without storing the scores.

    Args:
        key_dim: Size of each query and key head, `k`.
        value_dim: Size of each value head.
        dropout: Dropout rate on the scores. Only torch has a kernel with dropout; it draws from torch's own
            generator, as Keras's dropout without a seed does.

    Returns:
        A function of a query `(b, t, h, k)`, a key and a value `(b, s, h, k)`, and a boolean mask or None
        that broadcasts to `(b, h, t, s)`, True where the query may attend to the key. Its keyword
        `flash_attention` is that of `keras.ops.dot_product_attention`; None lets torch choose and is False on
        JAX.
    """
    # On TensorFlow Keras has no fused kernel. JAX's requires keys and values of one width, and its public
    # function (0.10) takes no dropout: only cuDNN's private one does.
    backends = ("torch",) if dropout else ("jax", "torch")
    if keras.backend.backend() not in backends or key_dim != value_dim:
        return None
    return partial(_attend_fused, dropout=dropout) if dropout else _attend_fused


def _attend_fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    flash_attention: bool | None = None,
    dropout: float = 0.0,
) -> Tensor:
    if keras.backend.backend() == "jax":
        flash_attention = _uses_flash(flash_attention)
        if _lacks_float16_products(query):
            q, k, v = (ops.cast(heads, "float32") for heads in (query, key, value))
            return ops.cast(_attend_fused(q, k, v, mask, flash_attention=flash_attention), query.dtype)
    # With dropout, torch chooses the kernel.
    attend = partial(ops.dot_product_attention, flash_attention=flash_attention)
    attend = partial(_drop_and_attend, dropout=dropout) if dropout else attend
    if mask is None:
        return attend(query, key, value)
    # For fully masked rows the kernels return the mean of the values or NaN. Such rows here attend to
    # everything, so that all gradients are finite, and their outputs are replaced by zeros.
    alive = ops.any(mask, axis=-1, keepdims=True)  # (b, h, t, 1)
    open_mask = ops.logical_or(mask, ops.logical_not(alive))
    full_mask = ops.broadcast_to(open_mask, (*open_mask.shape[:2], query.shape[1], key.shape[1]))
    outputs = attend(query, key, value, mask=full_mask)
    # (b, h, t, 1) -> (b, t, h, 1)
    return ops.where(ops.transpose(alive, (0, 2, 1, 3)), outputs, ops.zeros_like(outputs))


def _drop_and_attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float
) -> Tensor:
    """Compute attention with dropout on torch; `keras.ops.dot_product_attention` has no dropout."""
    from torch.nn import functional

    # (b, t, h, k) -> (b, h, t, k)
    query, key, value = (heads.transpose(1, 2) for heads in (query, key, value))
    outputs = functional.scaled_dot_product_attention(query, key, value, mask, dropout_p=dropout)
    return outputs.transpose(1, 2)


def _uses_flash(flash_attention: bool | None) -> bool:
    """Return whether Keras on JAX uses its flash kernel: only if requested; raise ValueError on TPU."""
    import jax

    # On TPU, Keras 3.15 calls JAX's splash kernel, which is causal without a mask, does not scale, and uses
    # the mask of the first example only. On GPU, Keras does not check whether cuDNN has a kernel for the
    # mask, so that XLA fails. The plain formula, compiled by XLA, is correct on every device.
    if flash_attention and jax.default_backend() == "tpu":
        raise ValueError(
            "On a TPU, `flash_attention` of Keras returns wrong results. "
            f"Received: flash_attention={flash_attention}."
        )
    return bool(flash_attention)


def _lacks_float16_products(query: Tensor) -> bool:
    """Return whether the device lacks the float16 products that JAX's attention requests."""
    # JAX (0.10) requests float16 products accumulated in float32 by an algorithm that only GPUs have; on CPU
    # a step with the policy `mixed_float16` does not compile.
    import jax

    return keras.backend.standardize_dtype(query.dtype) == "float16" and jax.default_backend() != "gpu"


def attend_step(query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    """Compute attention from one position of `n` hypotheses that share the keys and values of their source.

    The weights are `softmax(einsum("bngrk,bgmk->bngrm", query / sqrt(k), keys) + bias)`, in float32, and the
    outputs `einsum("bngrm,bgmk->bngrk", weights, values)`.

    Args:
        query: `(b, n, g, r, k)`: `r` query heads for each of `g` key/value heads.
        keys: `(b, g, m, k)`.
        values: `(b, g, m, k)`, of any width.
        bias: Broadcasts to `(b, n, g, r, m)`; `MINUS_INFINITY` hides a key. None for no bias.

    Returns:
        The outputs `(b, n, g, r, k)`.
    """
    # One hypothesis needs no axis: fewer operations, and LiteRT supports at most five axes.
    is_single = query.shape[1] == 1
    if is_single:
        # (b, 1, g, r, k) -> (b, g, r, k)
        query = ops.reshape(query, (-1, *query.shape[2:]))
        bias = None if bias is None else bias[:, 0]
    query = query * ops.cast(query.shape[-1] ** -0.5, query.dtype)
    logits = ops.cast(_batch_matmul(query, keys, transposed=True), "float32")
    logits = logits if bias is None else logits + bias
    # Not `softmax`: TensorFlow runs it in oneDNN, which takes ten times as long for this few numbers.
    weights = ops.exp(ops.log_softmax(logits, axis=-1))
    outputs = _batch_matmul(ops.cast(weights, values.dtype), values)
    return ops.reshape(outputs, (-1, 1, *outputs.shape[1:])) if is_single else outputs


def _batch_matmul(rows: Tensor, matrices: Tensor, *, transposed: bool = False) -> Tensor:
    """Multiply `(b, [n,] g, r, i)` by `(b, g, i, o)` or, with `transposed`, by `(b, g, o, i)`."""
    *hypotheses, num_groups, num_shared, _ = rows.shape[1:]
    # TensorFlow has no BatchMatMulV3 for float16 on CPU.
    if keras.backend.backend() == "tensorflow" and not _in_compiler() and rows.dtype != "float16":
        import tensorflow as tf

        # BatchMatMulV3 runs in Eigen; `matmul` would use oneDNN, which prepares again for each size: 170
        # microseconds against 13 for eight heads. Single rows, because from 16,384 multiplications on it
        # processes the batch one matrix after the other and splits each among the threads, up to twenty times
        # as slow. Rows and matrices are matched by broadcasting, so that heads and hypotheses need no
        # transpose.
        left, right = rows, matrices[:, None] if hypotheses else matrices
        if num_shared > 1:
            left, right = left[..., None, :], right[..., None, :, :]
        products = tf.raw_ops.BatchMatMulV3(x=left, y=right, Tout=rows.dtype, adj_y=transposed)
        return products[..., 0, :] if num_shared > 1 else products
    if _in_compiler() and not hypotheses and num_shared == 1:
        # XLA fuses this into one fast loop; on CPU, products with single rows would be slow.
        if transposed:
            return ops.sum(rows * matrices, axis=-1)[:, :, None, :]
        return ops.sum(ops.transpose(rows, (0, 1, 3, 2)) * matrices, axis=2)[:, :, None, :]
    matrices = ops.transpose(matrices, (0, 1, 3, 2)) if transposed else matrices
    if not hypotheses:
        return ops.matmul(rows, matrices)
    batch_size, *_, width = dynamic_shape(rows)
    by_group = ops.transpose(rows, (0, 2, 1, 3, 4))  # (b, g, n, r, i)
    by_group = ops.reshape(by_group, (batch_size, num_groups, hypotheses[0] * num_shared, width))
    products = ops.matmul(by_group, matrices)
    split = (batch_size, num_groups, hypotheses[0], num_shared, dynamic_shape(products)[-1])
    return ops.transpose(ops.reshape(products, split), (0, 2, 1, 3, 4))
