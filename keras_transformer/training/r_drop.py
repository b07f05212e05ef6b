"""R-Drop regularization: two passes with different dropout that must agree."""

from typing import Any

import keras
from keras import ops

from keras_transformer._arguments import check_number
from keras_transformer.training.losses import MaskedCrossentropy
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class RDropCrossentropy(MaskedCrossentropy):
    """Cross-entropy with R-Drop: two passes with different dropout, and a penalty for their divergence.

    Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", equation 4, divided by 2, so that
    the loss is the usual cross-entropy if both passes agree. It is the mean over real tokens of

        (CE(p) + CE(q)) / 2 + weight * (KL(p || q) + KL(q || p)) / 4

    Each training step runs the model twice and takes about twice as long. `evaluate` runs it once, without
    dropout and without the penalty.

    The models of this package run the second pass. With any other model the loss is the plain
    `MaskedCrossentropy`; `compile_model(model, ..., r_drop=5.0)` refuses such a model.

    Args:
        weight: Weight of the divergence, the paper's alpha. Defaults to 5, the paper's value for translation.
        label_smoothing: Probability mass to spread over the vocabulary. Defaults to 0.
        pad_id: Label of padding. Defaults to 0.
        name: Name of the loss.
        **kwargs: Other arguments of `MaskedCrossentropy`.

    Raises:
        ValueError: If `weight` is below 0 or not finite, or `label_smoothing` is outside [0, 1).

    Example:
        ```python
        model = kt.Transformer(100, 120, dropout=0.3)
        model.compile("adam", kt.training.RDropCrossentropy(weight=5.0, label_smoothing=0.1))
        ```
    """

    def __init__(
        self,
        weight: float = 5.0,
        label_smoothing: float = 0.0,
        pad_id: int = 0,
        name: str = "r_drop_crossentropy",
        **kwargs: Any,
    ) -> None:
        super().__init__(label_smoothing, pad_id, name, **kwargs)
        check_number(weight=weight)
        self.weight = weight

    def add_passes(
        self,
        model: keras.Model,
        loss: Tensor,
        x: Tensor | dict[str, Tensor],
        y: Tensor,
        y_pred: Tensor,
        sample_weight: Tensor | None,
    ) -> Tensor:
        """Run a second pass and return the combined loss. Called by the model in training.

        Args:
            model: Model to train.
            loss: Loss of the first pass.
            x: Inputs.
            y: Labels, integers `(b, t)`.
            y_pred: Logits `(b, t, v)` of the first pass.
            sample_weight: Weight of each token, or None.

        Returns:
            A float32 scalar.
        """
        second_y_pred = model(x, training=True)
        second_loss = keras.Model.compute_loss(model, x, y, second_y_pred, sample_weight, training=True)
        return (loss + second_loss) / 2 + self.distance(y, y_pred, second_y_pred, sample_weight)

    def distance(
        self, y_true: Tensor, y_pred: Tensor, second_y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the weighted divergence between two passes, a scalar."""
        # (KL(p || q) + KL(q || p)) / 2 = sum((p - q) * (log p - log q)) / 2
        logits = (ops.cast(each, "float32") for each in (y_pred, second_y_pred))
        log_p, log_q = (ops.log_softmax(each, axis=-1) for each in logits)  # (b, t, v)
        distances = ops.sum((ops.exp(log_p) - ops.exp(log_q)) * (log_p - log_q), axis=-1) / 2  # (b, t)
        return self.weight / 2 * self._mean(distances, ops.convert_to_tensor(y_true), sample_weight)

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "weight": self.weight}
