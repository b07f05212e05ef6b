"""Type names that say what annotations mean."""

from typing import Any, TypeAlias

# Keras tensors have no common static type: each backend brings its own class.
Tensor: TypeAlias = Any

# A static shape as Keras passes it to `build`: None where a size is not known.
Shape: TypeAlias = tuple[int | None, ...]
