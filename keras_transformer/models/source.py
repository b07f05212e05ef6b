"""Encoder inputs of any kind: Keras inputs, checks, padding mask, vectors."""

import abc
from typing import ClassVar

import keras
from keras import ops

from keras_transformer._arguments import as_boolean, as_tensor, known_sizes
from keras_transformer.models.config import _ModelConfig
from keras_transformer.types import Inputs, Shape, Tensor


class _Source(abc.ABC):
    """Source of an encoder. Subclasses, one per kind, are in separate files."""

    values: ClassVar[str]
    """Name of the values among the model's inputs, without prefix."""
    layer: ClassVar[str]
    """Attribute name of the layer that maps values to vectors."""
    stride: ClassVar[int] = 1
    """Number of values for each vector."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix  # of input names

    @property
    def values_name(self) -> str:
        """Name of the input that holds the values."""
        return self._prefix + self.values

    @property
    def mask_name(self) -> str:
        """Name of the padding mask `(b, s)`; an input only if values have no padding id."""
        return f"{self._prefix}padding_mask"

    @abc.abstractmethod
    def make_inputs(self) -> dict[str, Tensor]:
        """Return the symbolic inputs by name."""

    @abc.abstractmethod
    def make_layer(self, config: _ModelConfig, dtype: object) -> keras.layers.Layer:
        """Build the layer that maps values to vectors."""

    @abc.abstractmethod
    def padding_mask(self, values: Tensor) -> Tensor:
        """Return the default padding mask `(b, s)` of values."""

    @abc.abstractmethod
    def check(self, values: Tensor) -> None:
        """Raise ValueError if the values have the wrong shape."""

    def vectors(
        self, layer: keras.layers.Layer, values: Tensor, padding_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the vectors `(b, s, d)`, without positions, and their padding mask."""
        return layer(values), padding_mask

    def hide(self, values: Tensor, mask: Tensor) -> Inputs:
        """Return the inputs for values with an explicit mask `(b, s)`."""
        return {self.values_name: values, self.mask_name: mask}

    def complete(self, inputs: Inputs, mask: Tensor | None, names: set[str]) -> Inputs:
        """Return the inputs with an omitted mask filled in; `names` are the model's input names."""
        if len(names - {self.mask_name}) > 1 and not isinstance(inputs, dict):
            # A list does not say which of its items is the source.
            raise ValueError(
                f"`inputs` must be a dict with the keys {sorted(names)}. Received: {type(inputs).__name__}."
            )
        # A dict holds Keras's masks of several inputs; these are read from the inputs below.
        if mask is not None and not isinstance(mask, dict):
            if isinstance(inputs, dict):
                raise ValueError(
                    "`mask` must be None for several inputs: id 0 is padding, and frames have a mask "
                    f"among the inputs. Received: inputs {sorted(inputs)}."
                )
            inputs = self.hide(inputs, mask)
        if self.mask_name in names and hasattr(inputs, "shape"):
            inputs = {self.values_name: inputs}
        if not isinstance(inputs, dict):
            return inputs
        # Keras would silently ignore unknown keys.
        if not names - {self.mask_name} <= set(inputs) <= names:
            raise ValueError(f"`inputs` must have the keys {sorted(names)}. Received: keys {sorted(inputs)}.")
        if self.mask_name not in names:
            return inputs
        # `keras.Input(optional=True)` fails for a missing key on one backend and mispairs inputs on another.
        # All values become tensors, because Keras does not accept tensors and arrays together.
        given = {name: as_tensor(value) for name, value in inputs.items() if name != self.mask_name}
        values, mask = given[self.values_name], inputs.get(self.mask_name)
        mask = getattr(inputs[self.values_name], "_keras_mask", None) if mask is None else mask
        # Checked here, because Keras converts any number to a boolean.
        mask = self.padding_mask(values) if mask is None else _check_padding_mask(mask, values.shape)
        return {**given, self.mask_name: mask}

    def split(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the values and the padding mask of the inputs of a call."""
        if not isinstance(inputs, dict):
            return self.read(inputs, None)
        return self.read(inputs[self.values_name], inputs.get(self.mask_name))

    def read(self, values: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the checked values and mask; without a mask, the default one."""
        values = as_tensor(values)
        self.check(values)
        return values, self.padding_mask(values) if mask is None else _check_padding_mask(mask, values.shape)


def _check_padding_mask(mask: Tensor, source_shape: Shape, name: str = "padding_mask") -> Tensor:
    """Return a padding mask as booleans; raise ValueError if its shape is not the source's `(b, s)`."""
    mask = as_boolean(mask, name)
    shape, source_shape = known_sizes(mask.shape), known_sizes(source_shape)
    sizes = zip(shape, source_shape, strict=False)
    if len(shape) != 2 or any(None not in pair and pair[0] != pair[1] for pair in sizes):
        raise ValueError(
            f"`{name}` must have the shape (b, s) of the source. Received: {name} of shape "
            f"{shape}, source of shape {source_shape}."
        )
    return mask


def _mask_ids(token_ids: Tensor, mask: Tensor) -> Tensor:
    """Return token ids with padding (0) where a mask `(b, s)` is False."""
    token_ids = as_tensor(token_ids)
    return ops.where(_check_padding_mask(mask, token_ids.shape, "mask"), token_ids, 0)
