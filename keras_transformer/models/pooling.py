"""One vector for a sequence."""

from typing import Any

import keras
from keras import ops

from keras_transformer.models.source import check_padding_mask
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Pooling(keras.layers.Layer):
    """Turns the vectors of a sequence into one: their mean, or the first.

    The mean is taken over tokens only, in float32, so that padding never
    changes it.

    Args:
        mode: `mean`; or `first`, for sequences that start with a token that
            stands for the whole, as BERT's do.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, s, d)`.
        padding_mask: `(b, s)`, True (1) where there is a token; None if
            everywhere. `first` takes position 0, whatever the mask.

    Returns:
        `(b, d)`; zeros for the mean of a sequence without any token.

    Raises:
        ValueError: an unknown mode.

    Example:
        >>> x = keras.ops.convert_to_tensor([[[1.0], [3.0], [9.0]]])
        >>> float(Pooling("mean")(x, padding_mask=keras.ops.convert_to_tensor([[1, 1, 0]]))[0, 0])
        2.0
    """

    def __init__(self, mode: str = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if mode not in ("mean", "first"):
            raise ValueError(f"`pooling` must be 'mean' or 'first'. Received: pooling={mode!r}.")
        self.mode = mode
        self.supports_masking = True

    def call(self, inputs: Tensor, padding_mask: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        if self.mode == "first":
            return inputs[:, 0, :]
        x = ops.cast(inputs, "float32")
        given = mask if padding_mask is None else padding_mask
        if given is None:
            return ops.cast(ops.mean(x, axis=1), self.compute_dtype)
        mask = ops.expand_dims(check_padding_mask(given, inputs.shape), -1)  # (b, s, 1)
        # Chosen, not multiplied: whatever stands at padding, NaN too, stays out.
        total = ops.sum(ops.where(mask, x, 0.0), axis=1)  # (b, d)
        count = ops.sum(ops.cast(mask, "float32"), axis=1)  # (b, 1)
        return ops.cast(total / ops.maximum(count, 1.0), self.compute_dtype)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """End the Keras mask: no positions are left."""

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return (inputs_shape[0], inputs_shape[2])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "mode": self.mode}
