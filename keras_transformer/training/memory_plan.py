"""Memory estimate of a training step: weights, gradients, optimizer state, activations."""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras

from keras_transformer._arguments import check_kind, check_positive
from keras_transformer._backend.shapes import makes_values, optimizer_state
from keras_transformer.models.causal_lm import CausalLM
from keras_transformer.models.encoder_model import EncoderModel
from keras_transformer.models.transformer import Transformer
from keras_transformer.training.activations import (
    dtype_bytes,
    embedding_activations,
    layer_activations,
    normalization_activations,
    output_activations,
)
from keras_transformer.training.adam import Adam


class PartMemory(NamedTuple):
    """Memory of one part of a model in a training step, in bytes."""

    name: str
    """Path of the part, such as `encoder/layer_1`. `embeddings` is everything before the encoder and decoder
    layers, `output` everything after them. An embedding table that is also the output kernel counts in
    `output`."""
    num_weights: int
    """Number of scalar weights."""
    weights: int
    """Bytes of the weights."""
    gradients: int
    """Bytes of the gradients of trainable weights."""
    optimizer: int
    """Bytes of the optimizer state."""
    activations: int
    """Bytes of the tensors that the forward pass keeps for the backward pass, including the logits. In half
    precision, this includes the half-precision copies of the weights."""


@dataclasses.dataclass(frozen=True)
class MemoryPlan:
    """Memory estimate of a training step, returned by `memory_plan`. `print` shows a table.

    Args:
        parts: Parts of the model, in the order of the forward pass.
    """

    parts: tuple[PartMemory, ...]

    @property
    def total(self) -> PartMemory:
        """Sums of all columns."""
        columns = list(zip(*self.parts, strict=True))[1:]
        return PartMemory("sum", *map(sum, columns))

    @property
    def peak(self) -> int:
        """Peak memory of a training step, in bytes.

        It is less than the sum of all columns, because the backward pass frees the activations of each part
        while it computes the gradients.
        """
        activations = itertools.accumulate(part.activations for part in self.parts)
        gradients = list(itertools.accumulate(part.gradients for part in reversed(self.parts)))
        highest = max(map(sum, zip(activations, reversed(gradients), strict=True)))
        return self.total.weights + self.total.optimizer + highest

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("", "weights", "gradients", "optimizer", "activations")]
        for numbers, group in itertools.groupby(self.parts, key=lambda part: part[2:]):
            first, *others = (part.name for part in group)
            # Layers with equal numbers share a line.
            name = f"{first} and {len(others)} more, each" if others else first
            rows.append((name, *map(_megabytes, numbers)))
        rows.append(("sum", *map(_megabytes, self.total[2:])))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join((row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:]))) for row in rows]
        lines.append(f"{self.total.num_weights:,} weights; a step needs {_megabytes(self.peak)} at its peak.")
        return "\n".join(lines)


def memory_plan(
    model: keras.Model,
    batch_size: int,
    *,
    source_length: int | None = None,
    target_length: int | None = None,
) -> MemoryPlan:
    """Estimate the memory of a training step, layer by layer, without computing anything.

    The estimate follows from shapes only. If the model needs more memory than your machine has, build it
    inside `models.shapes_only`. The estimate counts the activations that JAX with XLA keeps; the memory guide
    compares it with the memory that XLA reports. TensorFlow and torch keep more activations if the training
    step is not compiled.

    Args:
        model: Model of this package. If it is not compiled, `Adam` is assumed.
        batch_size: Number of examples in a batch.
        source_length: Number of source positions, including padding. Required for a model with an encoder,
            else must be None.
        target_length: Number of target positions, including padding. Required for a model with a decoder,
            else must be None.

    Returns:
        The estimate; `print` shows a table.

    Raises:
        TypeError: If the model is from another package, or a size is not an integer.
        ValueError: If a size is not above zero, a length is missing or does not apply to the model, or the
            call is inside `shapes_only`.

    Example:
        >>> sizes = {"num_layers": 24, "hidden_dim": 2048, "num_heads": 32, "intermediate_dim": 8192}
        >>> from keras_transformer.models import shapes_only
        >>> with shapes_only():
        ...     model = CausalLM(32_000, **sizes)
        >>> memory_plan(model, 8, target_length=1024).total.num_weights
        1274134528
    """
    check_kind(CausalLM, EncoderModel, Transformer, model=model)
    if not makes_values():
        raise ValueError(f"Plan after `shapes_only` has ended. Received: {model.name}, inside of it.")
    check_positive(batch_size=batch_size)
    lengths = {"encoder": source_length, "decoder": target_length}
    for (stack, length), name in zip(lengths.items(), ("source_length", "target_length"), strict=True):
        if (length is None) == hasattr(model, stack):
            which = "with" if hasattr(model, stack) else "without"
            needed = "must be given" if hasattr(model, stack) else "must be None"
            raise ValueError(f"`{name}` {needed} for a model {which} {stack}. Received: {name}={length}.")
        if length is not None:
            check_positive(**{name: length})
    if getattr(model.config, "source_convolutions", False):
        lengths["encoder"] = math.ceil((source_length or 0) / 2)  # the second convolution halves the length
    optimizer = getattr(model, "optimizer", None) or Adam(1e-3)
    # R-Drop runs two forward passes.
    passes = 2 if hasattr(getattr(model, "loss", None), "add_passes") else 1
    counted: set[str] = set()
    parts = []
    for name, weights, activations in _backwards(model, batch_size, lengths):
        own = [weight for weight in weights if weight.path not in counted]
        counted.update(weight.path for weight in own)
        trainable = [weight for weight in own if weight.trainable]
        state = optimizer_state(optimizer, trainable) if trainable else []
        parts.append(
            PartMemory(
                name,
                sum(math.prod(weight.shape) for weight in own),
                _sum_bytes(own),
                _sum_bytes(trainable),
                _sum_bytes([variable for variable in state if len(variable.shape)]),  # without counters
                int(passes * activations) + _half_copies(own, model),
            )
        )
    return MemoryPlan(tuple(reversed(parts)))


def _backwards(
    model: Any, batch_size: int, lengths: dict[str, int | None]
) -> Iterator[tuple[str, list[keras.Variable], float]]:
    """Yield name, weights and activation bytes of each part, from the last to the first."""
    ends = [getattr(model, name, None) for name in ("pooling", "head", "head_end", "output_projection")]
    weights = [weight for layer in ends if layer is not None for weight in layer.weights]
    stacks = {name: length for name, length in lengths.items() if length is not None}
    # One output per position of the last stack, or per row.
    *_, last = stacks.values()
    num_outputs = batch_size if len(model.output_shape) == 2 else batch_size * last
    dtype = model.position_encoding.compute_dtype
    yield "output", weights, output_activations(num_outputs * model.output_shape[-1], dtype)
    for name, length in reversed(stacks.items()):
        stack, final = getattr(model, name), getattr(model, name).final_normalization
        if final.weights:
            numbers = normalization_activations(final, batch_size * length, model.config.hidden_dim)
            yield f"{name}/final_normalization", final.weights, numbers
        source_length = lengths["encoder"] or 0
        of_layer = [layer_activations(layer, batch_size, length, source_length) for layer in stack.layers]
        if model.config.rematerialize:
            # Only one layer at a time keeps all activations; the others keep only their inputs.
            yield f"{name}, a layer again", [], max(of_layer)
            inputs = batch_size * length * model.config.hidden_dim * dtype_bytes(dtype)
            of_layer = [inputs] * len(of_layer)
        layers = [*zip(stack.layers, of_layer, strict=True)]
        for number in range(len(layers), 0, -1):
            layer, numbers = layers[number - 1]
            yield f"{name}/layer_{number}", layer.weights, numbers
    # All remaining weights come before the stacks.
    yield "embeddings", model.weights, embedding_activations(model, batch_size * sum(stacks.values()))


def _half_copies(weights: list[keras.Variable], model: Any) -> int:
    """Return the bytes of the half-precision copies of weights that layers compute with."""
    width = dtype_bytes(model.position_encoding.compute_dtype)
    return int(sum(width * math.prod(each.shape) for each in weights if width < dtype_bytes(each.dtype)))


def _sum_bytes(variables: list[keras.Variable]) -> int:
    return int(sum(math.prod(each.shape) * dtype_bytes(each.dtype) for each in variables))


def _megabytes(number: int) -> str:
    return f"{number / 1e6:,.1f} MB"
