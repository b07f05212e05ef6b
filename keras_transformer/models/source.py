"""What an encoder reads, of whatever kind: its inputs, their checks, its padding, its vectors."""

import abc
from typing import ClassVar

import keras

from keras_transformer._arguments import as_boolean, as_tensor, known_sizes
from keras_transformer.models.config import _ModelConfig
from keras_transformer.types import Inputs, Shape, Tensor


class _Source(abc.ABC):
    """The source of an encoder. Each kind is a subclass in a file of its own; models know this class."""

    values: ClassVar[str]
    """What the values are called among a model's inputs."""
    layer: ClassVar[str]
    """What a model calls the layer that turns values into vectors."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix  # of the inputs' names

    @property
    def values_name(self) -> str:
        """Name of the input of values."""
        return self._prefix + self.values

    @property
    def mask_name(self) -> str:
        """Name of the padding mask `(b, s)`, which is an input unless the values themselves tell it."""
        return f"{self._prefix}padding_mask"

    @abc.abstractmethod
    def make_inputs(self) -> dict[str, Tensor]:
        """Make the symbolic inputs, by name."""

    @abc.abstractmethod
    def make_layer(self, config: _ModelConfig, dtype: object) -> keras.layers.Layer:
        """Make the layer that turns values into vectors."""

    @abc.abstractmethod
    def padding_mask(self, values: Tensor) -> Tensor:
        """Return the padding mask `(b, s)` of values that came without one."""

    @abc.abstractmethod
    def check(self, values: Tensor) -> None:
        """Raise ValueError for another shape, TypeError for another type."""

    def vectors(
        self, layer: keras.layers.Layer, values: Tensor, padding_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return vectors `(b, s, d)` without positions, and their padding mask."""
        return layer(values), padding_mask

    def complete(self, inputs: Inputs, names: set[str]) -> Inputs:
        """Fill in a mask that was left out; `names` are those of the model's inputs."""
        # Keras would drop a key that it does not know, without a word.
        if not isinstance(inputs, dict):
            return inputs
        if not names - {self.mask_name} <= set(inputs) <= names:
            raise ValueError(f"`inputs` must have the keys {sorted(names)}. Received: keys {sorted(inputs)}.")
        if self.mask_name not in names:
            return inputs
        # Not `keras.Input(optional=True)`, which fails for a missing key on one backend and mispairs inputs
        # on another. Keras does not take tensors next to arrays.
        given = {name: as_tensor(value) for name, value in inputs.items() if name != self.mask_name}
        values, mask = given[self.values_name], inputs.get(self.mask_name)
        # Checked here, since Keras makes booleans of any numbers.
        mask = self.padding_mask(values) if mask is None else _check_padding_mask(mask, values.shape)
        return {**given, self.mask_name: mask}

    def split(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the values and the padding mask of a call's inputs."""
        if not isinstance(inputs, dict):
            return self.read(inputs, None)
        return self.read(inputs[self.values_name], inputs.get(self.mask_name))

    def read(self, values: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Check values and mask, and return them; without a mask the values tell it."""
        values = as_tensor(values)
        self.check(values)
        return values, self.padding_mask(values) if mask is None else _check_padding_mask(mask, values.shape)


def _check_padding_mask(mask: Tensor, source_shape: Shape) -> Tensor:
    """Return a padding mask as booleans; raise if it is not of the shape `(b, s)` of the source."""
    mask = as_boolean(mask, "padding_mask")
    shape, source_shape = known_sizes(mask.shape), known_sizes(source_shape)
    sizes = zip(shape, source_shape, strict=False)
    if len(shape) != 2 or any(None not in pair and pair[0] != pair[1] for pair in sizes):
        raise ValueError(
            "`padding_mask` must have the shape (b, s) of the source. Received: padding_mask of shape "
            f"{shape}, source of shape {source_shape}."
        )
    return mask
