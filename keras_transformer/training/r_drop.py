"""R-Drop: two passes over each batch, with other dropout, that must agree."""

from typing import Any

import keras
from keras import ops

from keras_transformer._arguments import check_number
from keras_transformer.training.losses import MaskedCrossentropy
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class RDropCrossentropy(MaskedCrossentropy):
    """The cross-entropy of two passes with other dropout, and how far they are apart.

    Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", equation 4, divided by 2, so
    that the loss is the usual one where both passes agree: the mean over real tokens of

        (CE(p) + CE(q)) / 2 + weight * (KL(p || q) + KL(q || p)) / 4

    `weight` is the paper's alpha; it has 5 for translation. Each step of `fit` runs the model twice, and
    takes about twice as long. `evaluate` has one pass, no dropout, and the plain cross-entropy.

    The second pass is the work of the model, so the model must be one of this package. In another model
    this is the plain `MaskedCrossentropy`; `compile_model(model, ..., r_drop=5.0)` refuses such a model.

    Args:
        weight: How much the distance counts, alpha.
        label_smoothing: The probability that is spread over the vocabulary.
        pad_id: The label that is padding.
        name: The name of the loss.
        **kwargs: Further arguments of `MaskedCrossentropy`.

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
        """Run a second pass, and return the loss of both; a model that trains calls this.

        Args:
            model: The model that is trained.
            loss: The loss of its first pass.
            x: Its inputs.
            y: Labels, integers `(b, t)`.
            y_pred: Logits `(b, t, v)` of the first pass.
            sample_weight: How much each token counts, or None.

        Returns:
            A float32 scalar.
        """
        second_y_pred = model(x, training=True)
        second_loss = keras.Model.compute_loss(model, x, y, second_y_pred, sample_weight, training=True)
        return (loss + second_loss) / 2 + self.distance(y, y_pred, second_y_pred, sample_weight)

    def distance(
        self, y_true: Tensor, y_pred: Tensor, second_y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Compute the term of the loss that tells how far two passes are apart."""
        # (KL(p || q) + KL(q || p)) / 2 = sum((p - q) * (log p - log q)) / 2
        logits = (ops.cast(each, "float32") for each in (y_pred, second_y_pred))
        log_p, log_q = (ops.log_softmax(each, axis=-1) for each in logits)  # (b, t, v)
        distances = ops.sum((ops.exp(log_p) - ops.exp(log_q)) * (log_p - log_q), axis=-1) / 2  # (b, t)
        return self.weight / 2 * self._mean(distances, ops.convert_to_tensor(y_true), sample_weight)

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "weight": self.weight}
