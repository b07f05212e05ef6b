"""Gradients: in-place addition at labels, and a fixed order of operations."""

from collections.abc import Callable, Sequence

import keras
from keras import ops

from keras_transformer._backend.compiler import _in_compiler, _only_processors
from keras_transformer.types import Tensor


def add_at_labels(dense: Tensor, labels: Tensor, values: Tensor) -> Tensor:
    """Add a number at the label of each token.

    On CPU this is in place, so `dense` must be the result of an operation that nothing else uses.

    Args:
        dense: `(b, t, v)`; must not be used afterwards.
        labels: Integers `(b, t, 1)`.
        values: `(b, t, 1)`, in the dtype of `dense`.

    Returns:
        `(b, t, v)`.
    """
    flat_labels = ops.reshape(labels, (-1,))  # (b, t, 1) -> (b * t,)
    size = dense.shape[-1]
    offsets = ops.arange(ops.shape(flat_labels)[0], dtype="int32") * size + flat_labels
    flat, flat_values = ops.reshape(dense, (-1,)), ops.reshape(values, (-1,))
    # TensorFlow's scatter would copy `dense`, which is as large as the logits.
    if _only_processors() and not _in_compiler():
        flat = _add_in_place(flat, offsets, flat_values)
    else:
        flat = ops.scatter_update(flat, offsets[:, None], flat_values, reduction="add")
    # Using the shape of `dense` would keep `dense` in memory.
    return ops.reshape(flat, (*ops.shape(labels)[:-1], size))


def _add_in_place(flat: Tensor, offsets: Tensor, values: Tensor) -> Tensor:
    import tensorflow as tf

    @tf.custom_gradient
    def added(flat: Tensor, values: Tensor) -> tuple[Tensor, Callable[..., tuple[Tensor, Tensor]]]:
        """Return the sum, and the gradient that TensorFlow's operation lacks."""
        rows, row_values = tf.reshape(flat, (-1, 1)), tf.reshape(values, (-1, 1))
        rows = tf.raw_ops.InplaceAdd(x=rows, i=offsets, v=row_values)
        return tf.reshape(rows, (-1,)), lambda upstream: (upstream, tf.gather(upstream, offsets))

    return added(flat, values)


def differentiates_gradients() -> bool:
    """Return whether the backward pass that is running will itself be differentiated; for torch."""
    import torch

    return torch.is_grad_enabled()  # off in a backward pass without `create_graph=True`


def order_after(
    tensors: Sequence[Tensor | None], others: Sequence[Tensor] | None = None
) -> list[Tensor | None]:
    """Return tensors that are available only after all of them, or all of `others`, are computed.

    Args:
        tensors: Tensors of any shapes, or None.
        others: Tensors to wait for. Defaults to `tensors`.

    Returns:
        The same values. Embedding gradients become dense, with rows of equal tokens summed.
    """
    # JAX and torch order operations by their data. In a TensorFlow graph nothing else orders the update of a
    # weight after a gradient that is computed from it: of 30 equal steps, four or five had another gradient,
    # so that two runs differed.
    if keras.backend.backend() != "tensorflow":
        return list(tensors)
    import tensorflow as tf

    # TensorFlow represents the gradient of an embedding as one row per occurrence of a token; Keras's Adam
    # would square these rows before they are summed.
    dense = [None if tensor is None else tf.convert_to_tensor(tensor) for tensor in tensors]
    first = dense if others is None else others
    with tf.control_dependencies([tensor for tensor in first if tensor is not None]):
        return [None if tensor is None else tf.identity(tensor) for tensor in dense]
