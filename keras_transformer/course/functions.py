"""Functions that the course assignments ask for."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_transformer._arguments import as_boolean, as_tensor, check_number, check_positive
from keras_transformer.layers.dot_product_attention import dot_product_attention
from keras_transformer.layers.masks import causal_mask, padding_mask
from keras_transformer.layers.position_encoding import sinusoidal_position_encoding
from keras_transformer.types import Tensor


def get_angles(pos: npt.ArrayLike, k: npt.ArrayLike, d: int) -> npt.NDArray[np.floating]:
    """Return the angles of the sinusoidal position encoding, `pos / 10000 ** (2 * (k // 2) / d)`.

    Args:
        pos: Positions `(t, 1)`.
        k: Column indices 0 to `d - 1`, `(1, d)`.
        d: Width of the encoding.

    Returns:
        NumPy array `(t, d)`. The encoding is the sine of even columns and the cosine of odd columns.
    """
    check_positive(d=d)
    return np.asarray(pos) / np.power(10000, 2 * (np.asarray(k) // 2) / d)


def positional_encoding(positions: int, d: int) -> Tensor:
    """Return the sinusoidal encoding of the first `t` positions, float32 `(1, t, d)`."""
    check_number(whole=True, positions=positions)
    return sinusoidal_position_encoding(positions, d)[None, :, :]


def create_padding_mask(decoder_token_ids: Tensor) -> Tensor:
    """Return a padding mask, float32 `(b, 1, s)`: 0 where token ids `(b, s)` are 0, else 1."""
    return ops.cast(padding_mask(decoder_token_ids), "float32")[:, None, :]


def create_look_ahead_mask(sequence_length: Tensor | int) -> Tensor:
    """Return a causal mask, float32 `(1, t, t)`: lower triangle of ones."""
    return ops.cast(causal_mask(sequence_length, sequence_length), "float32")[None, :, :]


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute scaled dot-product attention, `softmax(q k^T / sqrt(width)) v`.

    Args:
        q: Queries `(..., t, k)`, of rank 2 to 4.
        k: Keys `(..., s, k)`.
        v: Values `(..., s, any width)`.
        mask: 1 where the query may attend to the key. Must broadcast to `(..., t, s)`; for queries `(b, h, t,
            k)` it may also be `(b, 1, s)` or `(b, t, s)`.

    Returns:
        The output `(..., t, any width)` and the attention weights `(..., t, s)`. If the mask has a higher
        rank, both have that rank. Both are zero for a query that may attend to no key.

    Raises:
        ValueError: If the ranks differ, or the mask does not broadcast to the weights.

    Example:
        >>> import numpy as np
        >>> output, weights = scaled_dot_product_attention(np.eye(3), np.eye(3), np.ones((3, 2)))
        >>> tuple(output.shape), tuple(weights.shape)
        ((3, 2), (3, 3))
    """
    inputs = [as_tensor(tensor) for tensor in (q, k, v)]
    rank = len(inputs[0].shape)
    if not 2 <= rank <= 4 or any(len(tensor.shape) != rank for tensor in inputs):
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in inputs)
        raise ValueError(f"`q`, `k` and `v` must have the same rank, 2 to 4. Received: shapes {shapes}.")
    # The assignments pass integers, or NumPy's float64.
    dtype = keras.backend.result_type(*(tensor.dtype for tensor in inputs), float)
    # (..., t, k) -> (b, h, t, k) -> (b, t, h, k)
    q, k, v = (ops.swapaxes(ops.cast(x, dtype)[(None,) * (4 - rank)], 1, 2) for x in inputs)
    if mask is not None:
        mask = as_boolean(mask, "mask")
        # (b, t, s) -> (b, 1, t, s), the same for every head
        mask = mask[:, None] if (rank, len(mask.shape)) == (4, 3) else mask
        rank = max(rank, len(mask.shape))
    output, weights = dot_product_attention(q, k, v, mask)
    added = (0,) * (4 - rank)
    return ops.swapaxes(output, 1, 2)[added], weights[added]


def FullyConnected(embedding_dim: int, fully_connected_dim: int, **kwargs: Any) -> keras.Sequential:
    """Return the feed-forward network of a layer: `(b, t, d)` to `(b, t, d)`, with a ReLU of width `f`."""
    return keras.Sequential(
        [
            keras.layers.Dense(fully_connected_dim, activation="relu", **kwargs),
            keras.layers.Dense(embedding_dim, **kwargs),
        ]
    )


@keras.saving.register_keras_serializable(package="keras_transformer.course")
def masked_loss(real: Tensor, pred: Tensor) -> Tensor:
    """Return the mean cross-entropy of probabilities `(b, t, v)` over the ids `(b, t)` that are not 0."""
    real = ops.cast(ops.convert_to_tensor(real), "int32")
    pred = ops.cast(ops.convert_to_tensor(pred), "float32")
    mask = ops.cast(ops.not_equal(real, 0), "float32")
    # (b, t, v) -> (b, t)
    losses = keras.losses.sparse_categorical_crossentropy(real, pred)
    # Divide by at least 1: the loss of a batch of padding is 0, not NaN.
    return ops.sum(losses * mask) / ops.maximum(ops.sum(mask), 1.0)


def next_word(
    model: Callable[..., tuple[Tensor, dict[str, Tensor]]], encoder_input: Tensor, output: Tensor
) -> Tensor:
    """Predict the next word by greedy decoding, int32 `(b, 1)`.

    Args:
        model: A `course.Transformer`, or a model or function with the same six call arguments in this order.
        encoder_input: Source ids `(b, s)`. 0 is padding.
        output: Ids of the words generated so far, `(b, t)`.
    """
    encoder_input, output = ops.convert_to_tensor(encoder_input), ops.convert_to_tensor(output)
    mask = create_padding_mask(encoder_input)
    look_ahead_mask = create_look_ahead_mask(ops.shape(output)[1])
    # `training` is None, not False, because Keras 3 rejects positional booleans.
    probabilities, _ = model(encoder_input, output, None, mask, look_ahead_mask, mask)
    return ops.cast(ops.argmax(probabilities[:, -1:, :], axis=-1), "int32")


def _with_query_axis(mask: Tensor | None) -> Tensor | None:
    """Add a query axis to a padding mask `(b, s)`; return masks of higher rank unchanged."""
    if mask is None:
        return None
    mask = as_boolean(mask, "mask")
    return mask[:, None, :] if len(mask.shape) == 2 else mask
