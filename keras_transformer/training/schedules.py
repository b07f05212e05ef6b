"""Learning rate schedules with warm-up."""

import keras
from keras import ops

from keras_transformer._arguments import check_number, check_positive
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class InverseSquareRootSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate schedule with linear warm-up and inverse square root decay, as in fairseq.

    The rate reaches its peak at step `warmup_steps`. The schedule is saved with the optimizer.

    Args:
        peak_learning_rate: Highest learning rate.
        warmup_steps: Number of warm-up steps. Defaults to 4000.
        initial_learning_rate: Learning rate at step 0. Defaults to 1e-7.

    Raises:
        ValueError: If `peak_learning_rate` or `warmup_steps` is not above zero.
    """

    def __init__(
        self, peak_learning_rate: float, warmup_steps: int = 4000, initial_learning_rate: float = 1e-7
    ) -> None:
        check_positive(warmup_steps=warmup_steps)
        check_number(above=0, peak_learning_rate=peak_learning_rate)
        check_number(initial_learning_rate=initial_learning_rate)
        self.peak_learning_rate = peak_learning_rate
        self.warmup_steps = warmup_steps
        self.initial_learning_rate = initial_learning_rate

    def __call__(self, step: Tensor) -> Tensor:
        step = ops.cast(step, "float32")
        slope = (self.peak_learning_rate - self.initial_learning_rate) / self.warmup_steps
        rising = self.initial_learning_rate + slope * step
        falling = self.peak_learning_rate * ops.sqrt(self.warmup_steps / ops.maximum(step, 1.0))
        return ops.where(step < self.warmup_steps, rising, falling)

    def get_config(self) -> dict[str, float]:
        return {
            "peak_learning_rate": self.peak_learning_rate,
            "warmup_steps": self.warmup_steps,
            "initial_learning_rate": self.initial_learning_rate,
        }


@keras.saving.register_keras_serializable(package="keras_transformer")
class NoamSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate schedule of "Attention Is All You Need", section 5.3, equation 3.

    The rate of update `n = 1, 2, ...` is `scale * d^-0.5 * min(n^-0.5, n * warmup_steps^-1.5)`.

    Args:
        hidden_dim: Model width `d`.
        warmup_steps: Number of warm-up updates; the rate peaks there. Defaults to 4000.
        scale: Factor on the learning rate. Defaults to 1.

    Raises:
        ValueError: If an argument is not above zero.
    """

    def __init__(self, hidden_dim: int, warmup_steps: int = 4000, scale: float = 1.0) -> None:
        check_positive(hidden_dim=hidden_dim, warmup_steps=warmup_steps)
        check_number(above=0, scale=scale)
        self.hidden_dim = hidden_dim
        self.warmup_steps = warmup_steps
        self.scale = scale

    def __call__(self, step: Tensor) -> Tensor:
        # Keras counts from 0, the paper's formula from 1.
        update = ops.cast(step, "float32") + 1.0
        factor = ops.minimum(update**-0.5, update * self.warmup_steps**-1.5)
        return self.scale * self.hidden_dim**-0.5 * factor

    def get_config(self) -> dict[str, float]:
        return {"hidden_dim": self.hidden_dim, "warmup_steps": self.warmup_steps, "scale": self.scale}
