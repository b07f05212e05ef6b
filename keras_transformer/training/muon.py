"""Muon optimizer for the matrices of this package's models."""

import math
import re
from collections.abc import Sequence

import keras
from keras import ops

from keras_transformer.types import Shape, Tensor

# Attention kernels (d, h, k) of the heads, and (h, k, d) of the output.
_HEADS, _OUTPUT = re.compile(r"/(query|key|value|gate)/kernel$"), re.compile(r"/attention_output/kernel$")


@keras.saving.register_keras_serializable(package="keras_transformer")
class Muon(keras.optimizers.Muon):
    """Muon optimizer (Jordan et al. 2024) for kernels, including the 3-D kernels of attention.

    Keras's Muon applies to 2-D variables, so it would miss the attention kernels `(d, h, k)` and include the
    biases `(h, k)`. This class treats attention kernels as the matrices `(d, h * k)` and `(h * k, d)`.
    AdamW updates all other variables: biases, normalization, embeddings, the output projection, and layers
    named by `exclude_layers`.

    Arguments and state are those of `keras.optimizers.Muon`.

    Example:
        ```python
        model.compile(kt.training.Muon(1e-3), kt.training.MaskedCrossentropy())
        ```
    """

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Create the state and find the matrices. Called by Keras."""
        self._shapes = [_matrix_shape(variable) for variable in variables]
        super().build(variables)

    def _should_use_adamw(self, variable: keras.Variable) -> bool:
        is_excluded = any(re.search(keyword, variable.path) for keyword in self.exclude_layers)
        return is_excluded or _matrix_shape(variable) is None

    def _muon_update_step(
        self, gradient: Tensor, variable: keras.Variable, lr: Tensor, m: keras.Variable
    ) -> None:
        self.assign_add(m, ops.add(gradient, m * (self.momentum - 1)))
        step = ops.add(gradient, self.momentum * m) if self.nesterov else m
        # In an update TensorFlow passes its own variable, which has no path.
        matrix = ops.reshape(step, self._shapes[self._get_variable_index(variable)])
        update = self.lr_adjust(lr * self.zeropower_via_newtonschulz5(matrix, self.ns_steps))
        self.assign_sub(variable, ops.reshape(update, variable.shape))


def _matrix_shape(variable: keras.Variable) -> Shape | None:
    """Return the shape of a kernel as a matrix; None for all other variables."""
    path, shape = f"/{variable.path}", tuple(variable.shape)
    if len(shape) == 3 and _HEADS.search(path):
        return shape[0], math.prod(shape[1:])
    if len(shape) == 3 and _OUTPUT.search(path):
        return math.prod(shape[:-1]), shape[-1]
    is_kernel = len(shape) == 2 and path.endswith("/kernel") and "/output_projection/" not in path
    return shape if is_kernel else None
