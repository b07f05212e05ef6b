"""Linear layers with LoRA and quantization, including attention's projections to heads and back."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer._backend.indexing import gather
from keras_transformer._backend.loop import snapshot_weights
from keras_transformer._backend.projection import project
from keras_transformer.layers.built_parts import _clone
from keras_transformer.types import Tensor


class _LoraLayer(keras.layers.Layer):
    """Mixin for Keras's `Dense` and `EinsumDense` that saves LoRA factors separately from the kernel.

    Keras saves the sum of a kernel and its LoRA factors, and loads both factors as zeros, which then have
    zero gradients and can no longer be trained.
    """

    lora_enabled: bool

    def quantize(self, mode: str, type_check: bool = True, **kwargs: object) -> None:
        """Quantize the kernel without Keras's type check, which refuses subclasses; called by Keras."""
        super().quantize(mode, type_check=False, **kwargs)

    def save_own_variables(self, store: MutableMapping[str, Any]) -> None:
        """Save the kernel and, separately, its LoRA factors; called by Keras."""
        with _lora_disabled(self):
            super().save_own_variables(store)
        if self.lora_enabled:
            store["lora_kernel_a"], store["lora_kernel_b"] = self.lora_kernel_a, self.lora_kernel_b
            store["lora_scale"] = np.float32(self.lora_alpha / self.lora_rank)

    def load_own_variables(self, store: Mapping[str, Any]) -> None:
        """Load the kernel and its LoRA factors; a layer without LoRA adds the factors to its kernel."""
        values = {name: store[name] for name in list(store.keys())}
        a, b, scale = (values.pop(name, None) for name in ("lora_kernel_a", "lora_kernel_b", "lora_scale"))
        if self.lora_enabled:
            # Without factors in the file `a` keeps its initial values: two zero factors could not be trained.
            a = ops.convert_to_numpy(self.lora_kernel_a) if a is None else a
            super().load_own_variables(values)
            self.lora_kernel_a.assign(a)
            if b is not None:
                self.lora_kernel_b.assign(b)
            return
        super().load_own_variables(values)
        if a is not None and self.quantization_mode:
            raise ValueError("A quantized kernel cannot absorb LoRA factors. Enable LoRA before loading.")
        if a is not None:
            self._kernel.assign_add(scale * np.matmul(a, b))


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dense(_LoraLayer, keras.layers.Dense):
    """Keras's `Dense` layer, whose LoRA factors can still be trained after saving and loading.

    Args:
        *args: As for `keras.layers.Dense`.
        **kwargs: As for `keras.layers.Dense`.
    """


@keras.saving.register_keras_serializable(package="keras_transformer")
class _Projection(_LoraLayer, keras.layers.EinsumDense):
    """Keras's `EinsumDense` for equations such as `"btd,dhk->bthk"`, computed by `_backend.projection`.

    As an `EinsumDense` it supports Keras's LoRA, quantization, dtype policies and weight files.
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        kernel = _float_kernel(self, len(self.partial_output_shape) - 1)
        bias = None if self.bias is None else ops.cast(self.bias, kernel.dtype)
        return project(self.equation, inputs, kernel, bias)

    def flat(self) -> tuple[Tensor, Tensor | None]:
        """Return the kernel as a matrix `(i, o)` and the bias as `(o,)`."""
        matrix = _matrix_of(self, len(self.partial_output_shape) - 1)
        return matrix, None if self.bias is None else ops.reshape(ops.cast(self.bias, matrix.dtype), (-1,))


class _Linear:
    """Several linear layers of one input, joined to one matrix and one bias before a loop."""

    def __init__(self, *layers: keras.layers.Layer) -> None:
        with keras.StatelessScope(snapshot_weights(*layers)):
            flat = (
                layer.flat() if hasattr(layer, "flat") else (_matrix_of(layer), layer.bias)
                for layer in layers
            )
            matrices, biases = zip(*flat, strict=True)
            self._widths = [matrix.shape[1] for matrix in matrices]
            self._matrix, self._bias = ops.concatenate(matrices, axis=-1), None
            if biases[0] is not None:
                self._bias = ops.cast(ops.concatenate(biases, axis=-1), self._matrix.dtype)

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the layers' outputs for rows `(r, i)`, concatenated."""
        product = ops.matmul(ops.cast(rows, self._matrix.dtype), self._matrix)
        return product if self._bias is None else ops.add(product, self._bias)

    def parts(self, rows: Tensor) -> list[Tensor]:
        """Return each layer's output for rows `(r, i)`."""
        ends = [sum(self._widths[:number]) for number in range(1, len(self._widths))]
        return ops.split(self(rows), ends, axis=-1) if ends else [self(rows)]


def _matrix_of(layer: keras.layers.Layer, num_outputs: int = 1) -> Tensor:
    """Return a kernel, whose last `num_outputs` axes are outputs, as a float matrix `(i, o)`."""
    size = math.prod(layer.kernel.shape[len(layer.kernel.shape) - num_outputs :])
    return ops.reshape(_float_kernel(layer, num_outputs), (-1, size))


def _float_kernel(layer: keras.layers.Layer, num_outputs: int = 1) -> Tensor:
    """Return the kernel of a layer, dequantized if necessary, in the compute dtype."""
    mode = layer.quantization_mode
    if mode is None:
        return ops.cast(layer.kernel, layer.compute_dtype)
    if mode not in ("int8", "int4", "float8"):
        raise ValueError(f"A kernel must be of floats, int8 or int4. Received: quantization mode {mode!r}.")
    with _lora_disabled(layer):  # Keras would add the float factors to the integer kernel
        kernel = ops.cast(layer.kernel, layer.compute_dtype)
    if mode == "int8":
        sizes = kernel.shape[len(kernel.shape) - num_outputs :]
        kernel = kernel / ops.reshape(ops.cast(layer.kernel_scale, kernel.dtype), sizes)
    if mode == "int4":
        scale = ops.cast(layer.kernel_scale, kernel.dtype)
        rows = ops.reshape(kernel, (-1, scale.shape[-1]))
        if len(scale.shape) == 1:
            rows = rows / scale
        else:  # groups of rows, each with a scale that multiplies and a zero point
            groups = ops.cast(layer.g_idx, "int32")
            rows = (rows - ops.cast(gather(layer.kernel_zero, groups), kernel.dtype)) * gather(scale, groups)
        kernel = ops.reshape(rows, kernel.shape)
    if layer.lora_enabled:
        scale = layer.lora_alpha / layer.lora_rank
        kernel = kernel + ops.cast(scale * ops.matmul(layer.lora_kernel_a, layer.lora_kernel_b), kernel.dtype)
    return kernel


@contextlib.contextmanager
def _lora_disabled(layer: keras.layers.Layer) -> Iterator[None]:
    """Disable LoRA inside the context, so that `layer.kernel` excludes the factors."""
    has_factors, layer.lora_enabled = layer.lora_enabled, False
    try:
        yield
    finally:
        layer.lora_enabled = has_factors


def _matrix_initializer(initializer: Callable[..., Tensor], num_summed: int) -> Callable[..., Tensor]:
    """Copy an initializer so that it draws a kernel as a 2-D matrix, with different numbers per copy."""
    draw = _clone(initializer)

    def initialize(shape: tuple[int, ...], dtype: str | None = None) -> Tensor:
        # For a kernel of rank 3 Keras computes the fans of a convolution, which would initialize attention
        # several times too small.
        matrix_shape = math.prod(shape[:num_summed]), math.prod(shape[num_summed:])
        return ops.reshape(draw(matrix_shape, dtype=dtype), shape)

    return initialize
