"""A function whose activations are computed again in the backward pass, with the same random numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import tree

from keras_transformer.types import Tensor


def rematerialize(
    function: Callable[..., Tensor], layer: keras.layers.Layer, *args: Any, **kwargs: Any
) -> Tensor:
    """Compute `function(*args, **kwargs)`, and keep only its arguments for the backward pass.

    Keras's own `keras.remat` (3.15) fails where a layer has dropout: its seeds are assigned inside of the
    function, so on JAX they leak out of the trace, and a second run draws another mask.

    Args:
        function: what is run a second time for the gradient.
        layer: owns every weight and every seed generator that the function uses.
        *args: tensors, or None.
        **kwargs: tensors or other values.

    Returns:
        The same tensor. The seeds of the layer have moved on once, as without recomputation.
    """
    # All but the states of seeds; compared by identity, since `==` compares the numbers of variables.
    weights = layer.weights
    seeds = [each for each in layer.variables if not any(each is weight for weight in weights)]
    # A product, since TensorFlow and torch assign in place: the second run would find the seeds moved on.
    now = [seed.value * 1 for seed in seeds]
    # Booleans have no gradient, and are not handed in: TensorFlow adds a zero to all that it is handed.
    flat = tree.flatten((args, kwargs))
    inputs = {number: each for number, each in enumerate(flat) if _has_gradient(each)}

    def run(now: list[Tensor], *values: Any) -> tuple[Tensor, list[Tensor]]:
        given = dict(zip(inputs, map(_with_mask, values, inputs.values()), strict=True))
        args_now, kwargs_now = tree.pack_sequence_as(
            (args, kwargs), [given.get(number, each) for number, each in enumerate(flat)]
        )
        with _Seeds(zip(seeds, now, strict=True)) as scope:
            outputs = function(*args_now, **kwargs_now)
        return outputs, [scope.get_current_value(seed) for seed in seeds]

    outputs, after = _checkpoint(run, now, *inputs.values())
    for seed, value in zip(seeds, after, strict=True):
        seed.assign(value)
    return outputs


class _Seeds(keras.StatelessScope):
    """Keeps what is assigned inside of it, and lets all else be read as it is outside."""

    def get_current_value(self, variable: keras.Variable) -> Tensor | None:
        value = super().get_current_value(variable)
        outside = self.original_scope
        return outside.get_current_value(variable) if value is None and outside is not None else value


def _has_gradient(value: Any) -> bool:
    return keras.ops.is_tensor(value) and keras.backend.is_float_dtype(value.dtype)


def _with_mask(value: Tensor, original: Tensor) -> Tensor:
    """Hand on the Keras mask of an input to the tensor that takes its place."""
    mask = getattr(original, "_keras_mask", None)
    if mask is not None:
        value._keras_mask = mask
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

        # It also puts back the state of torch's own generator, from which dropout without a seed draws.
        return torch.utils.checkpoint.checkpoint(run, now, *values, use_reentrant=False)
    import tensorflow as tf

    after: list[list[Tensor]] = []

    def outputs_alone(*values: Any) -> Tensor:
        # Integers are no outputs of a function with a gradient.
        outputs, seeds = run(now, *values)
        after.append(seeds)
        return outputs

    return tf.recompute_grad(outputs_alone)(*values), after[0]
