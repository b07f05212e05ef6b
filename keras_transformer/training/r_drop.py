"""R-Drop: two passes with other dropout, which have to agree."""

import math
from typing import Any

import keras
from keras import ops

from keras_transformer.training.losses import MaskedCrossentropy
from keras_transformer.types import Tensor


def symmetric_divergence(logits: Tensor, other_logits: Tensor) -> Tensor:
    """Compute how far two predictions of each token are apart, in float32.

    Half the sum of both Kullback-Leibler divergences, `(KL(p || q) + KL(q || p)) / 2`, which is
    `sum((p - q) * (log p - log q)) / 2`. Gradients flow into both.

    Args:
        logits: `(b, t, v)`.
        other_logits: `(b, t, v)`.

    Returns:
        A float32 tensor `(b, t)`.
    """
    log_p, log_q = (ops.log_softmax(ops.cast(each, "float32"), axis=-1) for each in (logits, other_logits))
    return ops.sum((ops.exp(log_p) - ops.exp(log_q)) * (log_p - log_q), axis=-1) / 2


@keras.saving.register_keras_serializable(package="keras_transformer")
class RDropCrossentropy(MaskedCrossentropy):
    """The cross-entropy of two passes with other dropout, and how far they are apart.

    Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", equation 4, divided by 2, so
    that the loss is the usual one where both passes agree: the mean over real tokens of

        (CE(p) + CE(q)) / 2 + weight * (KL(p || q) + KL(q || p)) / 4

    `weight` is the paper's alpha; it has 5 for translation. Each step of `fit` runs the model twice, and
    takes about twice as long. `evaluate` has one pass, no dropout, and the plain cross-entropy.

    The second pass is the work of the model: it must be one of this package or have the mixin
    a model of this package. In another model this is the plain `MaskedCrossentropy`, without a word;
    `compile_model(model, ..., r_drop=5.0)` refuses such a model.

    Args:
        weight: how much the distance counts, alpha.
        label_smoothing: the probability that is spread over the vocabulary.
        pad_id: the label that is padding.
        name: the name of the loss.
        **kwargs: what else `MaskedCrossentropy` takes.

    Raises:
        ValueError: a weight that is below 0 or not finite, or a smoothing outside [0, 1).

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
        if not 0 <= weight < math.inf:
            raise ValueError(f"`weight` must be at least 0 and finite. Received: weight={weight}.")
        self.weight = weight

    def compare_passes(
        self, y_true: Tensor, y_pred: Tensor, second_y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Compute what is added to the mean of both passes' losses; the models of this package call this.

        Args:
            y_true: labels, integers `(b, t)`.
            y_pred: logits `(b, t, v)` of the first pass.
            second_y_pred: logits `(b, t, v)` of the second.
            sample_weight: `(b,)` or `(b, t)`, or None.

        Returns:
            A float32 scalar.
        """
        distances = symmetric_divergence(y_pred, second_y_pred)
        return self.weight / 2 * self.reduce(distances, ops.convert_to_tensor(y_true), sample_weight)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "weight": self.weight}
