"""What a step of training keeps in memory: weights, gradients, optimizer state, activations by layer."""

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
    """Bytes of a part of a model in a step of training."""

    name: str
    """Path of the part: `encoder/layer_1`; `embeddings` for what comes before the stacks, `output` for what
    comes after them. A table that input and output share belongs to `output`."""
    num_weights: int
    """Number of weights."""
    weights: int
    """Bytes of the weights."""
    gradients: int
    """Bytes of the gradients of trainable weights."""
    optimizer: int
    """Bytes of what the optimizer keeps for trainable weights."""
    activations: int
    """Bytes that the forward pass leaves for the backward pass, the logits among them. In half precision also
    the copies of the weights that layers compute with."""


@dataclasses.dataclass(frozen=True)
class MemoryPlan:
    """Memory of a step of training, as `memory_plan` returns it; printed, it is a table.

    Args:
        parts: Each part of the model, in the order of the forward pass.
    """

    parts: tuple[PartMemory, ...]

    @property
    def total(self) -> PartMemory:
        """The sum of each column."""
        columns = list(zip(*self.parts, strict=True))[1:]
        return PartMemory("sum", *map(sum, columns))

    @property
    def peak(self) -> int:
        """Bytes that a step needs at its most.

        The backward pass goes from the last part to the first, frees the activations of each, and leaves its
        gradients. So this is less than all columns together.
        """
        activations = itertools.accumulate(part.activations for part in self.parts)
        gradients = list(itertools.accumulate(part.gradients for part in reversed(self.parts)))
        highest = max(map(sum, zip(activations, reversed(gradients), strict=True)))
        return self.total.weights + self.total.optimizer + highest

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("", "weights", "gradients", "optimizer", "activations")]
        for numbers, group in itertools.groupby(self.parts, key=lambda part: part[2:]):
            first, *others = (part.name for part in group)
            # Layers that need the same share a line.
            name = f"{first} and {len(others)} more, each" if others else first
            rows.append((name, *map(_megabytes, numbers)))
        rows.append(("sum", *map(_megabytes, self.total[2:])))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join((row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:]))) for row in rows]
        lines.append(f"{self.total.num_weights:,} weights; a step needs {_megabytes(self.peak)} at its most.")
        return "\n".join(lines)


def memory_plan(
    model: keras.Model,
    batch_size: int,
    *,
    source_length: int | None = None,
    target_length: int | None = None,
) -> MemoryPlan:
    """Count what a step of training keeps in memory, by layer, without computing anything.

    Weights and optimizer state are counted from shapes, so a model that is larger than the machine can be
    planned too: make it inside `models.shapes_only`. Activations are those that JAX and XLA keep; a table in
    the guide to memory has the plan next to XLA's own number. TensorFlow and torch keep more where they
    compile nothing.

    Args:
        model: A model of this package. `Adam` is planned for one that is not compiled.
        batch_size: Rows of a batch.
        source_length: Positions of the source, padding included. For a model with an encoder.
        target_length: Positions of the target, padding included. For a model with a decoder.

    Returns:
        The plan.

    Raises:
        TypeError: If the model is of another package, or a size is not an integer.
        ValueError: If a size is not above zero, a length is missing or given for a stack that the model does
            not have, or the call is inside `shapes_only`.

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
        lengths["encoder"] = math.ceil((source_length or 0) / 2)  # the second halves the frames
    optimizer = getattr(model, "optimizer", None) or Adam(1e-3)
    # R-Drop is two forward passes.
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
                _sum_bytes([variable for variable in state if len(variable.shape)]),  # no counters
                int(passes * activations) + _half_copies(own, model),
            )
        )
    return MemoryPlan(tuple(reversed(parts)))


def _backwards(
    model: Any, batch_size: int, lengths: dict[str, int | None]
) -> Iterator[tuple[str, list[keras.Variable], float]]:
    """Yield name, weights and bytes of activations of each part, from the last to the first."""
    ends = [getattr(model, name, None) for name in ("pooling", "head", "head_end", "output_projection")]
    weights = [weight for layer in ends if layer is not None for weight in layer.weights]
    stacks = {name: length for name, length in lengths.items() if length is not None}
    # One output for each position of the last stack, or for each row.
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
            # One layer at a time; of all others the inputs alone.
            yield f"{name}, a layer again", [], max(of_layer)
            inputs = batch_size * length * model.config.hidden_dim * dtype_bytes(dtype)
            of_layer = [inputs] * len(of_layer)
        for layer, numbers in zip(reversed(stack.layers), reversed(of_layer), strict=True):
            yield f"{name}/{layer.name}", layer.weights, numbers
    # All other weights are in front of the stacks.
    yield "embeddings", model.weights, embedding_activations(model, batch_size * sum(stacks.values()))


def _half_copies(weights: list[keras.Variable], model: Any) -> int:
    """Return the bytes of the copies that layers of half precision make of weights, until they are done."""
    width = dtype_bytes(model.position_encoding.compute_dtype)
    return int(sum(width * math.prod(each.shape) for each in weights if width < dtype_bytes(each.dtype)))


def _sum_bytes(variables: list[keras.Variable]) -> int:
    return int(sum(math.prod(each.shape) * dtype_bytes(each.dtype) for each in variables))


def _megabytes(number: int) -> str:
    return f"{number / 1e6:,.1f} MB"
