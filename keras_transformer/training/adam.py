"""Adam with a fused update of each weight."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_transformer._backend.adam import adam_update
from keras_transformer._backend.gradients import order_after
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Adam(keras.optimizers.Adam):
    """Adam (Kingma and Ba 2015) with a fused update on TensorFlow and correct gradient accumulation.

    Arguments and state are those of `keras.optimizers.Adam`; results are equal up to rounding, except:

    - Embeddings on TensorFlow: gradients of a token that repeats in a batch are summed before they are
      squared, as in the paper and on the other backends.
    - `gradient_accumulation_steps`: schedules and the average of the weights step once per update. In Keras,
      they step once per batch: a warm-up of 1,000 steps ends after 250 updates of four batches.
    """

    ema_momentum: float | Tensor

    def apply(
        self, grads: Sequence[Tensor | None], trainable_variables: Sequence[keras.Variable] | None = None
    ) -> None:
        """Update all weights. Called by Keras."""
        # Sums the rows of embedding gradients of repeated tokens, which Keras would square one by one, and
        # waits until all gradients are computed.
        super().apply(order_after(grads), trainable_variables)

    def update_step(self, gradient: Tensor, variable: keras.Variable, learning_rate: Tensor) -> None:
        """Update a weight and its moments. Called by Keras."""
        if self.amsgrad:
            super().update_step(gradient, variable, learning_rate)
            return
        index = self._get_variable_index(variable)
        adam_update(
            variable,
            self._momentums[index],
            self._velocities[index],
            gradient,
            step=self.iterations + 1,
            learning_rate=learning_rate,
            beta_1=self.beta_1,
            beta_2=self.beta_2,
            epsilon=self.epsilon,
        )

    def _get_current_learning_rate(self) -> Tensor:
        if isinstance(self._learning_rate, keras.optimizers.schedules.LearningRateSchedule):
            # At the number of updates; Keras passes the number of batches if gradients are accumulated.
            return self._learning_rate(self.iterations)
        return super()._get_current_learning_rate()

    def _update_model_variables_moving_average(self, trainable_variables: Sequence[keras.Variable]) -> None:
        momentum, steps = self.ema_momentum, self.gradient_accumulation_steps or 1
        if steps > 1:
            is_update = ops.equal((self._iterations + 1) % steps, 0)
            self.ema_momentum = ops.where(is_update, momentum, 1.0)  # the average does not change
        try:
            super()._update_model_variables_moving_average(trainable_variables)
        finally:
            self.ema_momentum = momentum
