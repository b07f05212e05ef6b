"""Learning-rate schedules with warm-up, saved with the optimizer."""

from typing import Any

import keras
from keras import ops

from keras_transformer.arguments import check_positive
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class InverseSquareRootSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly to a peak, then falls with the inverse square root of the step.

    As in fairseq: at the last step of warm-up the rate is the peak.

    Args:
        peak_learning_rate: the highest rate.
        warmup_steps: the step of the peak.
        initial_learning_rate: the rate at step 0.

    Raises:
        ValueError: a peak or a warm-up not above zero.
    """

    def __init__(
        self,
        peak_learning_rate: float,
        warmup_steps: int = 4000,
        initial_learning_rate: float = 1e-7,
    ) -> None:
        check_positive(warmup_steps=warmup_steps)
        if not peak_learning_rate > 0:
            raise ValueError(
                f"`peak_learning_rate` must be above zero. Received: peak_learning_rate={peak_learning_rate}."
            )
        self.peak_learning_rate = peak_learning_rate
        self.warmup_steps = warmup_steps
        self.initial_learning_rate = initial_learning_rate

    def __call__(self, step: Tensor) -> Tensor:
        step = ops.cast(step, "float32")
        slope = (self.peak_learning_rate - self.initial_learning_rate) / self.warmup_steps
        rising = self.initial_learning_rate + slope * step
        falling = self.peak_learning_rate * ops.sqrt(self.warmup_steps / ops.maximum(step, 1.0))
        return ops.where(step < self.warmup_steps, rising, falling)

    def get_config(self) -> dict[str, Any]:
        return {
            "peak_learning_rate": self.peak_learning_rate,
            "warmup_steps": self.warmup_steps,
            "initial_learning_rate": self.initial_learning_rate,
        }


@keras.saving.register_keras_serializable(package="keras_transformer")
class NoamSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """The schedule of "Attention Is All You Need", section 5.3, equation 3.

    `scale * d^-0.5 * min(n^-0.5, n * warmup_steps^-1.5)`, where the first
    update is `n = 1`.

    Args:
        hidden_dim: the model width, `d`.
        warmup_steps: the update with the highest rate.
        scale: a factor on the whole curve.

    Raises:
        ValueError: a width, a warm-up or a scale not above zero.
    """

    def __init__(self, hidden_dim: int, warmup_steps: int = 4000, scale: float = 1.0) -> None:
        check_positive(hidden_dim=hidden_dim, warmup_steps=warmup_steps)
        if not scale > 0:
            raise ValueError(f"`scale` must be above zero. Received: scale={scale}.")
        self.hidden_dim = hidden_dim
        self.warmup_steps = warmup_steps
        self.scale = scale

    def __call__(self, step: Tensor) -> Tensor:
        # Keras counts from 0, the paper's formula from 1.
        update = ops.cast(step, "float32") + 1.0
        factor = ops.minimum(update**-0.5, update * self.warmup_steps**-1.5)
        return self.scale * self.hidden_dim**-0.5 * factor

    def get_config(self) -> dict[str, Any]:
        return {
            "hidden_dim": self.hidden_dim,
            "warmup_steps": self.warmup_steps,
            "scale": self.scale,
        }
