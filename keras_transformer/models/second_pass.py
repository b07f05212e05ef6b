"""A second pass over each batch of training, for a loss that compares two."""

from typing import Any

import keras

from keras_transformer.types import Tensor


class SecondPass:
    """Mixed into a Keras model, this lets its loss see two passes over the same batch, with other dropout.

    All models here have it. It does nothing unless the loss has the method
    `compare_passes(y_true, y_pred, second_y_pred, sample_weight)`, as `training.RDropCrossentropy` has.
    Then each batch of `fit` runs through the model twice, and its loss is the mean of those of both
    passes and what the method returns. `evaluate`, and all metrics, see one pass.

    Example:
        >>> import keras
        >>> class MyModel(SecondPass, keras.Model):
        ...     pass
        >>> inputs = keras.Input((3,), dtype="int32")
        >>> model = MyModel(inputs, keras.layers.Dropout(0.5)(keras.layers.Embedding(7, 7)(inputs)))
    """

    def compute_loss(
        self,
        x: Any = None,
        y: Tensor | None = None,
        y_pred: Tensor | None = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
    ) -> Tensor:
        """Compute the loss, with a second pass where the loss asks for one; Keras calls this.

        Args:
            x: the inputs of the model.
            y: the labels.
            y_pred: what the first pass gave.
            sample_weight: how much each sample counts, or None.
            training: whether the step trains.

        Returns:
            A scalar.

        Raises:
            ValueError: a loss that compares two passes is in a list or dict of losses.
        """
        this: Any = self
        keras_model: Any = super()  # since this class stands before it
        loss = keras_model.compute_loss(x, y, y_pred, sample_weight, training)
        compare_passes = getattr(this.loss, "compare_passes", None)
        if compare_passes is None and any(
            hasattr(x, "compare_passes") for x in keras.tree.flatten(this.loss)
        ):
            raise ValueError(
                "A loss that compares two passes must be given alone, as `loss=RDropCrossentropy(...)`. "
                f"Received: loss={this.loss!r}."
            )
        if not training or compare_passes is None:
            return loss
        second_y_pred = this(x, training=True)
        second_loss = keras_model.compute_loss(x, y, second_y_pred, sample_weight, training)
        return (loss + second_loss) / 2 + compare_passes(y, y_pred, second_y_pred, sample_weight)
