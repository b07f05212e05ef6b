"""Adam as one operation for each weight."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_transformer._backend.adam import adam_update
from keras_transformer._backend.gradients import finished
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Adam(keras.optimizers.Adam):
    """Keras's Adam (Kingma and Ba 2015), which TensorFlow applies in one pass over each weight.

    The numbers are the same to rounding, except for embeddings on TensorFlow, whose second moments are the
    paper's, and those of the other backends, for a token that repeats in a batch too.

    With `gradient_accumulation_steps` a schedule counts updates, and so does the moving average. Keras's own
    counts batches for both: a warm-up of 1,000 steps would be over after 250 updates of four batches.

    Arguments and state are those of `keras.optimizers.Adam`.
    """

    ema_momentum: float | Tensor

    def apply(
        self, grads: Sequence[Tensor | None], trainable_variables: Sequence[keras.Variable] | None = None
    ) -> None:
        """Update all weights; Keras calls this."""
        # TensorFlow keeps gradients of embeddings as rows, each of which Keras would square by itself, so
        # that the second moment of a repeated token would differ from the paper's: they are added up first.
        # And no weight is updated before all gradients are computed.
        super().apply(finished(grads), trainable_variables)

    def update_step(self, gradient: Tensor, variable: keras.Variable, learning_rate: Tensor) -> None:
        """Update a weight and its moments; Keras calls this."""
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
            # Of updates; Keras hands over the number of batches when gradients are accumulated.
            return self._learning_rate(self.iterations)
        return super()._get_current_learning_rate()

    def _update_model_variables_moving_average(self, trainable_variables: Sequence[keras.Variable]) -> None:
        momentum, steps = self.ema_momentum, self.gradient_accumulation_steps or 1
        if steps > 1:
            is_update = ops.equal((self._iterations + 1) % steps, 0)
            self.ema_momentum = ops.where(is_update, momentum, 1.0)  # all of the average stays
        try:
            super()._update_model_variables_moving_average(trainable_variables)
        finally:
            self.ema_momentum = momentum
