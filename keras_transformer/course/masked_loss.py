"""The loss of the course: cross-entropy over the words that are not padding."""

import keras
from keras import ops

from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer.course")
def masked_loss(real: Tensor, pred: Tensor) -> Tensor:
    """Compute the mean cross-entropy of the words that are not padding.

    As in the course it is one number, so that Keras multiplies it with the mean of sample weights,
    whichever rows they choose; `training.MaskedCrossentropy` weighs words, of logits.

    Args:
        real: ids `(b, t)`; 0 is padding.
        pred: probabilities `(b, t, v)`.

    Returns:
        A float32 scalar; 0 where there is no word at all.
    """
    real = ops.cast(ops.convert_to_tensor(real), "int32")
    pred = ops.cast(ops.convert_to_tensor(pred), "float32")
    mask = ops.cast(ops.not_equal(real, 0), "float32")  # (b, t)
    losses = keras.losses.sparse_categorical_crossentropy(real, pred)  # (b, t)
    # At least one, since a batch without a word has the loss 0, not NaN.
    return ops.sum(losses * mask) / ops.maximum(ops.sum(mask), 1.0)
