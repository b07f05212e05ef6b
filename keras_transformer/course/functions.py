"""The functions that the assignments have their readers write."""

import inspect
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transformer._arguments import as_boolean, as_tensor
from keras_transformer.layers.dot_product_attention import dot_product_attention
from keras_transformer.layers.masks import causal_mask, padding_mask
from keras_transformer.layers.position_encoding import sinusoidal_position_encoding
from keras_transformer.types import Tensor


def positional_encoding(positions: int, d: int) -> Tensor:
    """Compute the sinusoidal encoding of the first positions.

    Args:
        positions: how many, `t`.
        d: the width.

    Returns:
        A float32 tensor `(1, t, d)`: sines in even columns, cosines in odd ones.
    """
    return sinusoidal_position_encoding(positions, d)[None, :, :]


def create_padding_mask(decoder_token_ids: Tensor) -> Tensor:
    """Mask the tokens that are padding.

    Args:
        decoder_token_ids: integers `(b, s)`, of a source or a target; 0 is padding.

    Returns:
        A float32 tensor `(b, 1, s)`, 1 where there is a token.
    """
    return ops.cast(padding_mask(decoder_token_ids), "float32")[:, None, :]


def create_look_ahead_mask(sequence_length: Tensor | int) -> Tensor:
    """Let each position see itself and those before it.

    Args:
        sequence_length: the number of positions, `t`.

    Returns:
        A float32 tensor `(1, t, t)`, the lower triangle of ones.
    """
    return ops.cast(causal_mask(sequence_length, sequence_length), "float32")[None, :, :]


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute `softmax(q k^T / sqrt(width)) v`, as `layers.dot_product_attention` does.

    Args:
        q: queries `(..., t, k)`, of rank 2 to 4.
        k: keys `(..., s, k)`.
        v: values `(..., s, any width)`.
        mask: broadcasts to `(..., t, s)`; for queries `(b, h, t, k)` also `(b, 1, s)` or
            `(b, t, s)`, the same for every head. 1 where the query may attend to the
            key. None lets every query attend to every key.

    Returns:
        The output `(..., t, any width)` and the weights `(..., t, s)`. A query that may attend to nothing
        gets zeros in both. A mask of a higher rank than the queries' gives both its rank.

    Raises:
        ValueError: an argument of another rank, a mask of another size.

    Example:
        >>> import numpy as np
        >>> output, weights = scaled_dot_product_attention(np.eye(3), np.eye(3), np.ones((3, 2)))
        >>> tuple(output.shape), tuple(weights.shape)
        ((3, 2), (3, 3))
    """
    q, k, v = (as_tensor(tensor) for tensor in (q, k, v))
    # The assignments' examples are written with integers, and NumPy's floats are of double precision.
    dtype = keras.backend.result_type(q.dtype, k.dtype, v.dtype, float)
    q, k, v = (ops.cast(tensor, dtype) for tensor in (q, k, v))
    rank = len(q.shape)
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if len(tensor.shape) != rank or not 2 <= rank <= 4:
            raise ValueError(
                f"`q`, `k` and `v` must have the same rank, 2 to 4. Received: {name} of shape "
                f"{tuple(tensor.shape)}, q of shape {tuple(q.shape)}."
            )
    if mask is not None:
        mask = as_boolean(mask, "mask")
        if len(mask.shape) > 4:
            raise ValueError(f"`mask` must have a rank up to 4. Received: shape={tuple(mask.shape)}.")
        # A mask for each row, such as `create_padding_mask` makes: (b, t, s) -> (b, 1, t, s)
        if (rank, len(mask.shape)) == (4, 3):
            mask = ops.expand_dims(mask, 1)
        rank = max(rank, len(mask.shape))
        mask = _to_rank(mask, 4)
    # (..., t, k) is (b, h, t, k) with sizes of 1 in front; our function keeps the heads behind the time.
    q, k, v = (ops.swapaxes(_to_rank(tensor, 4), 1, 2) for tensor in (q, k, v))
    output, weights = dot_product_attention(q, k, v, mask)
    return _to_rank(ops.swapaxes(output, 1, 2), rank), _to_rank(weights, rank)


def _to_rank(tensor: Tensor, rank: int) -> Tensor:
    """Put axes of size 1 in front, or take them from there."""
    while len(tensor.shape) < rank:
        tensor = ops.expand_dims(tensor, 0)
    while len(tensor.shape) > rank:
        tensor = ops.squeeze(tensor, 0)
    return tensor


def FullyConnected(embedding_dim: int, fully_connected_dim: int, **kwargs: Any) -> keras.Sequential:
    """Make the two dense layers that follow attention.

    Args:
        embedding_dim: the width of input and output, `d`.
        fully_connected_dim: the inner width, `f`.
        **kwargs: `dtype` of each layer.

    Returns:
        A model from `(b, t, d)` over a rectified `(b, t, f)` to `(b, t, d)`.
    """
    return keras.Sequential(
        [
            keras.layers.Dense(fully_connected_dim, activation="relu", **kwargs),
            keras.layers.Dense(embedding_dim, **kwargs),
        ]
    )


@keras.saving.register_keras_serializable(package="keras_transformer.course")
def masked_loss(real: Tensor, pred: Tensor) -> Tensor:
    """Compute the mean cross-entropy of the words that are not padding.

    `training.MaskedCrossentropy` weighs words, of logits.

    Args:
        real: ids `(b, t)`; 0 is padding.
        pred: probabilities `(b, t, v)`.

    Returns:
        A float32 scalar; 0 where there is no word at all.
    """
    real = ops.cast(ops.convert_to_tensor(real), "int32")
    pred = ops.cast(ops.convert_to_tensor(pred), "float32")
    mask = ops.cast(ops.not_equal(real, 0), "float32")
    # (b, t, v) -> (b, t)
    losses = keras.losses.sparse_categorical_crossentropy(real, pred)
    # One number, as in the course: so Keras multiplies it with the mean of sample weights, whichever rows
    # they choose. At least one, since a batch without a word has the loss 0, not NaN.
    return ops.sum(losses * mask) / ops.maximum(ops.sum(mask), 1.0)


def next_word(
    model: Callable[..., tuple[Tensor, dict[str, Tensor]]], encoder_input: Tensor, output: Tensor
) -> Tensor:
    """Predict the word that follows what was written so far.

    Args:
        model: a `course.Transformer`, or a model or a function that takes its six arguments in this order.
        encoder_input: integers `(b, s)`, the source; 0 is padding.
        output: integers `(b, t)`, the words so far.

    Returns:
        The most likely ids, int32 `(b, 1)`.
    """
    encoder_input, output = ops.convert_to_tensor(encoder_input), ops.convert_to_tensor(output)
    mask = create_padding_mask(encoder_input)
    look_ahead_mask = create_look_ahead_mask(ops.shape(output)[1])
    others = False, mask, look_ahead_mask, mask
    if isinstance(model, keras.layers.Layer):
        # Keras 3 takes nothing but tensors by position, and a student may have chosen other names.
        names = [*inspect.signature(model.call).parameters][2:]
        probabilities, _ = model(encoder_input, output, **dict(zip(names, others, strict=False)))
    else:
        probabilities, _ = model(encoder_input, output, *others)
    return ops.cast(ops.argmax(probabilities[:, -1:, :], axis=-1), "int32")


def _over_keys(mask: Tensor | None) -> Tensor | None:
    """Give a mask of keys `(b, s)` an axis for the queries; masks of a higher rank have it."""
    # What rank 2 covers follows from the name of the argument: (b, s) where padding is asked for, (t, t)
    # where the future is. Rejected: to tell them apart by their sizes, which changes the meaning in the one
    # batch that has as many rows as positions.
    if mask is None:
        return None
    mask = as_boolean(mask, "mask")
    return mask[:, None, :] if len(mask.shape) == 2 else mask
