"""Adam as one operation for each weight."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.backend import after
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Adam(keras.optimizers.Adam):
    """Keras's Adam (Kingma and Ba 2015), which TensorFlow applies in one pass over each weight.

    Keras writes a step as ten operations, each of which reads and writes a tensor of the weight's size.
    TensorFlow has one kernel for all of them; the numbers are the same to rounding. On the other
    backends, which compile the ten to few, under a `tf.distribute` strategy and with `amsgrad` this is
    Keras's own.

    Gradients of embeddings, which TensorFlow keeps as rows, are added up first. Keras's own squares each
    row instead, so that the second moment of a token that repeats in a batch is another than the paper's,
    and than that of the other backends. And no weight is updated before all gradients are there: in the graph
    of a step TensorFlow otherwise may update one while the gradient of another is computed from it.

    With `gradient_accumulation_steps` a schedule counts updates, and so does the moving average. Keras's own
    counts batches for both: a warm-up of 1,000 steps would be over after 250 updates of four batches.

    Arguments and state are those of `keras.optimizers.Adam`.
    """

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Update all weights; Keras calls this.

        Args:
            grads: a gradient for each weight; tensors, TensorFlow's `IndexedSlices`, or None.
            trainable_variables: the weights, if not all that the optimizer was built for.
        """
        gradients = [_added_up(gradient) for gradient in grads]
        all_gradients = [gradient for gradient in gradients if gradient is not None]
        super().apply(after(all_gradients, gradients), trainable_variables)

    def update_step(self, gradient: Tensor, variable: Any, learning_rate: Tensor) -> None:
        """Update a weight and its two moments; Keras calls this.

        Args:
            gradient: of the weight's shape.
            variable: the weight.
            learning_rate: a scalar.
        """
        if keras.backend.backend() == "tensorflow" and not self.amsgrad:
            import tensorflow as tf

            if not tf.distribute.has_strategy():
                self._apply_kernel(gradient, variable, learning_rate)
                return
        super().update_step(gradient, variable, learning_rate)

    def _get_current_learning_rate(self) -> Tensor:
        """Ask the schedule for the rate of this update; Keras calls this."""
        if isinstance(self._learning_rate, keras.optimizers.schedules.LearningRateSchedule):
            return self._learning_rate(self.iterations)
        return super()._get_current_learning_rate()

    def _update_model_variables_moving_average(self, trainable_variables: Sequence[Any]) -> None:
        """Take the weights into the average, if this batch has updated them; Keras calls this."""
        this: Any = self
        momentum, steps = this.ema_momentum, this.gradient_accumulation_steps or 1
        if steps > 1:
            is_update = ops.equal((this._iterations + 1) % steps, 0)
            this.ema_momentum = ops.where(is_update, momentum, 1.0)  # all of the average stays
        try:
            super()._update_model_variables_moving_average(trainable_variables)
        finally:
            this.ema_momentum = momentum

    def _apply_kernel(self, gradient: Tensor, variable: Any, learning_rate: Tensor) -> None:
        """Do it with TensorFlow's kernel."""
        import tensorflow as tf

        index = self._get_variable_index(variable)
        weight, momentum, velocity = (
            part.value if isinstance(part, keras.Variable) else part
            for part in (variable, self._momentums[index], self._velocities[index])
        )
        step = ops.cast(self.iterations + 1, weight.dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=momentum.handle,
            v=velocity.handle,
            beta1_power=ops.cast(self.beta_1, weight.dtype) ** step,
            beta2_power=ops.cast(self.beta_2, weight.dtype) ** step,
            lr=ops.cast(learning_rate, weight.dtype),
            beta1=ops.cast(self.beta_1, weight.dtype),
            beta2=ops.cast(self.beta_2, weight.dtype),
            epsilon=ops.cast(self.epsilon, weight.dtype),
            grad=tf.cast(gradient, weight.dtype),
        )


def _added_up(gradient: Any) -> Any:
    """Add the rows of an embedding's gradient that are of the same token."""
    if gradient is None or keras.backend.backend() != "tensorflow":
        return gradient
    import tensorflow as tf

    return tf.convert_to_tensor(gradient)
