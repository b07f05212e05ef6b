"""Rematerialization: activations recomputed in the backward pass, with the same random numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import tree
from keras.src.backend import get_keras_mask, set_keras_mask  # no public API has them

from keras_transformer.types import Tensor


def rematerialize(
    function: Callable[..., Tensor], layer: keras.layers.Layer, *args: Any, **kwargs: Any
) -> Tensor:
    """Compute `function(*args, **kwargs)`, and keep only the arguments for the backward pass.

    `keras.remat` (3.15) fails for layers with dropout: seeds are assigned inside the function, so on JAX they
    leak from the trace, and the second run draws a different dropout mask.

    Args:
        function: Function to run again for the gradient.
        layer: Layer that owns all weights and seed generators that the function uses.
        *args: Tensors, or None.
        **kwargs: Tensors or other values.

    Returns:
        The outputs of the function. The layer's seeds advance once, as without rematerialization.
    """
    # All variables that are not weights; compared by identity, because `==` compares variables by value.
    weights = layer.weights
    seeds = [each for each in layer.variables if not any(each is weight for weight in weights)]
    # Copies: TensorFlow and torch assign in place, so the second run would see advanced seeds.
    now = [seed.value * 1 for seed in seeds]
    # Only floats are arguments of `run`: TensorFlow adds a zero to every argument, which fails for booleans.
    flat = tree.flatten((args, kwargs))
    inputs = {number: each for number, each in enumerate(flat) if _has_gradient(each)}

    def run(now: list[Tensor], *values: Any) -> tuple[Tensor, list[Tensor]]:
        given = dict(zip(inputs, map(_copy_mask, values, inputs.values()), strict=True))
        args_now, kwargs_now = tree.pack_sequence_as(
            (args, kwargs), [given.get(number, each) for number, each in enumerate(flat)]
        )
        with _SeedScope(zip(seeds, now, strict=True)) as scope:
            outputs = function(*args_now, **kwargs_now)
        return outputs, [scope.get_current_value(seed) for seed in seeds]

    outputs, after = _checkpoint(run, now, *inputs.values())
    for seed, value in zip(seeds, after, strict=True):
        seed.assign(value)
    return outputs


class _SeedScope(keras.StatelessScope):
    """Scope that holds the assignments made inside it; other variables are read from the outer scope."""

    def get_current_value(self, variable: keras.Variable) -> Tensor | None:
        value = super().get_current_value(variable)
        outside = self.original_scope
        return outside.get_current_value(variable) if value is None and outside is not None else value


def _has_gradient(value: Any) -> bool:
    return keras.ops.is_tensor(value) and keras.backend.is_float_dtype(value.dtype)


def _copy_mask(value: Tensor, original: Tensor) -> Tensor:
    """Copy the Keras mask of an input to the tensor that replaces it."""
    # A traced array of JAX has no attributes.
    if (mask := get_keras_mask(original)) is not None:
        set_keras_mask(value, mask)
    return value


def _checkpoint(
    run: Callable[..., tuple[Tensor, list[Tensor]]], now: Sequence[Tensor], *values: Any
) -> tuple[Tensor, list[Tensor]]:
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return jax.checkpoint(run)(now, *values)
    if backend == "torch":
        import torch.utils.checkpoint

        # It also restores torch's global generator, from which dropout without a seed draws.
        return torch.utils.checkpoint.checkpoint(run, now, *values, use_reentrant=False)
    import tensorflow as tf

    after: list[list[Tensor]] = []

    def outputs_alone(*values: Any) -> Tensor:
        # A function with a gradient cannot return integers.
        outputs, seeds = run(now, *values)
        after.append(seeds)
        return outputs

    return tf.recompute_grad(outputs_alone)(*values), after[0]
