"""What a step of training keeps in memory: weights, gradients, optimizer state, activations by layer."""

import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import keras

from keras_transformer._arguments import check_kind, check_positive
from keras_transformer._backend.shapes import optimizer_state
from keras_transformer.models.causal_lm import CausalLM
from keras_transformer.models.encoder_model import EncoderModel
from keras_transformer.models.transformer import Transformer
from keras_transformer.training.adam import Adam

# How often XLA keeps a tensor for the backward pass: read from its buffers where the step needs the most, and
# held to them by `tests/training/test_memory.py`.
_FLOAT32 = 4
_RANDOM = 8  # bytes of a number that dropout may drop: XLA keeps two random words, and no mask


class LayerMemory(NamedTuple):
    """Bytes of a part of a model in a step of training."""

    name: str
    """Path of the part: `encoder/layer_1`; `embeddings` for what comes before the stacks, `output` for what
    comes after them. A table that input and output share counts as `output`."""
    num_weights: int
    """Number of weights."""
    weights: int
    """Bytes of the weights."""
    gradients: int
    """Bytes of the gradients of trainable weights."""
    optimizer: int
    """Bytes of what the optimizer keeps for trainable weights."""
    activations: int
    """Bytes that the forward pass leaves for the backward pass; those of the loss count as `output`. In half
    precision also the copies of the weights that layers compute with."""


@dataclasses.dataclass(frozen=True)
class MemoryPlan:
    """Memory of a step of training, as `memory_plan` returns it; printed, it is a table."""

    layers: tuple[LayerMemory, ...]
    """Each part, in the order of the forward pass."""

    @property
    def total(self) -> LayerMemory:
        """The sum over all parts."""
        return LayerMemory("sum", *(sum(column) for column in list(zip(*self.layers, strict=True))[1:]))

    @property
    def peak(self) -> int:
        """Bytes that the step needs at its most.

        The backward pass goes from the last part to the first: it frees the activations of a part, and its
        gradients come in their place. So the peak is less than the sum of the columns.
        """
        total = self.total
        kept = itertools.accumulate(part.activations for part in self.layers)
        gradients = list(itertools.accumulate(part.gradients for part in reversed(self.layers)))
        moments = map(sum, zip(kept, reversed(gradients), strict=True))
        return total.weights + total.optimizer + max(moments)

    def __str__(self) -> str:
        rows = [("", "weights", "gradients", "optimizer", "activations")]
        # Layers that need the same are one line.
        for same, group in itertools.groupby(self.layers, key=lambda part: part[1:]):
            names = [part.name for part in group]
            name = f"{names[0]}, and {len(names) - 1} more, each" if len(names) > 1 else names[0]
            rows.append((name, *map(_megabytes, same[1:])))
        rows.append(("sum", *map(_megabytes, self.total[2:])))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows
        ]
        weights = f"{self.total.num_weights:,} weights"
        return "\n".join([*lines, f"{weights}; the step needs {_megabytes(self.peak)} at its most"])


def memory_plan(
    model: keras.Model,
    batch_size: int,
    *,
    source_length: int | None = None,
    target_length: int | None = None,
) -> MemoryPlan:
    """Count the bytes that a step of training keeps, by layer, without a step.

    Weights and the state of the optimizer are counted from their shapes, so a model of any size can be
    planned on any machine: make it inside `models.shapes_only`. Activations are what JAX and XLA keep; how
    close that comes to XLA's own number is a table in the guide to memory. TensorFlow and torch keep more
    where they compile nothing.

    Args:
        model: A model of this package. One that is not compiled is planned with `Adam`.
        batch_size: Rows of a batch, `b`.
        source_length: Positions of the source, `s`, padding included; for models with an encoder.
        target_length: Positions of the target, `t`; for models with a decoder.

    Returns:
        The plan.

    Raises:
        TypeError: If the model is of another package, or a size is not an integer.
        ValueError: If a size is not above zero, or a length is missing or not one of the model's.

    Example:
        >>> with keras_transformer.models.shapes_only():
        ...     model = CausalLM(32_000, num_layers=24, hidden_dim=2048, num_heads=32, intermediate_dim=8192)
        >>> plan = memory_plan(model, batch_size=8, target_length=1024)
        >>> plan.total.num_weights
        1274179584
    """
    check_kind(CausalLM, EncoderModel, Transformer, model=model)
    encoder, decoder = getattr(model, "encoder", None), getattr(model, "decoder", None)
    check_positive(batch_size=batch_size)
    _check_length(model, encoder, source_length=source_length)
    _check_length(model, decoder, target_length=target_length)
    s, t = source_length or 0, target_length or 0
    if getattr(model.config, "source_convolutions", False):
        s = math.ceil(s / 2)
    sizes = _Sizes(batch_size, t, s, model.config.hidden_dim, _bytes((encoder or decoder).compute_dtype))
    optimizer = getattr(model, "optimizer", None) or Adam(1e-3)
    # Two passes of R-Drop; the loss of all others has one.
    passes = 2 if hasattr(getattr(model, "loss", None), "add_passes") else 1

    def part(name: str, weights: Iterable[keras.Variable], numbers: float) -> LayerMemory:
        weights = list(weights)
        trainable = [weight for weight in weights if weight.trainable]
        state = optimizer_state(optimizer, trainable) if trainable else []
        copies = sizes.width * _count(weights) if sizes.width < _FLOAT32 else 0
        return LayerMemory(
            name,
            _count(weights),
            *(sum(map(_bytes_of, group)) for group in (weights, trainable)),
            sum(_bytes_of(variable) for variable in state if variable.shape),
            int(passes * numbers + copies),
        )

    counted: set[int] = set()

    def new(weights: Iterable[keras.Variable]) -> list[keras.Variable]:
        fresh = [weight for weight in weights if id(weight) not in counted]
        counted.update(map(id, fresh))
        return fresh

    # The backward pass begins with the output, so a table that it shares has its gradient from then on.
    heads = [getattr(model, name, None) for name in ("pooling", "head", "head_end", "output_projection")]
    output = part("output", new(w for layer in heads if layer for w in layer.weights), _output(model, sizes))
    stacks = [
        part(name, new(layer.weights), numbers)
        for stack, layers in (("encoder", _encoder_layers(encoder, sizes)), ("decoder", _decoder_layers(decoder, sizes)))
        for name, layer, numbers in ((f"{stack}/{layer.name}", layer, numbers) for layer, numbers in layers)
    ]
    embeddings = part("embeddings", new(model.weights), _embeddings(model, sizes))
    return MemoryPlan((embeddings, *stacks, output))
