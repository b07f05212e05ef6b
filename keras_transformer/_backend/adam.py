"""Adam update of one weight."""

import keras
from keras import ops

from keras_transformer.types import Tensor


def adam_update(
    weight: keras.Variable,
    momentum: keras.Variable,
    velocity: keras.Variable,
    gradient: Tensor,
    *,
    step: Tensor,
    learning_rate: Tensor,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> None:
    """Update a weight and both moments in place (Kingma and Ba 2015, end of section 2)."""
    gradient, rate, step, beta_1, beta_2 = (
        ops.cast(number, weight.dtype) for number in (gradient, learning_rate, step, beta_1, beta_2)
    )
    power_1, power_2 = ops.power(beta_1, step), ops.power(beta_2, step)
    # TensorFlow has one kernel for the whole update, which reads and writes each tensor once; the formula
    # would be ten operations over memory. The results are equal up to rounding. JAX and torch compile or fuse
    # the ten.
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        if not tf.distribute.has_strategy():  # a strategy updates the copies of a weight by operations
            variables = (weight, momentum, velocity)
            # Keras passes the weight as a TensorFlow variable, and the moments as Keras variables.
            handles = [(x.value if isinstance(x, keras.Variable) else x).handle for x in variables]
            numbers = (power_1, power_2, rate, beta_1, beta_2, tf.cast(epsilon, gradient.dtype))
            names = ("beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon")
            tf.raw_ops.ResourceApplyAdam(
                **dict(zip(("var", "m", "v"), handles, strict=True)),
                **dict(zip(names, numbers, strict=True)),
                grad=gradient,
            )
            return
    rate = rate * ops.sqrt(1 - power_2) / (1 - power_1)
    momentum.assign_add(ops.multiply(ops.subtract(gradient, momentum), 1 - beta_1))
    velocity.assign_add(ops.multiply(ops.subtract(ops.square(gradient), velocity), 1 - beta_2))
    weight.assign_sub(ops.divide(ops.multiply(momentum, rate), ops.add(ops.sqrt(velocity), epsilon)))
