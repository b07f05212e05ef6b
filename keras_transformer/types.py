"""Type aliases and constants of the package."""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field

# Tensor of any backend; these have no common static type.
Tensor: TypeAlias = Any

# Input of a task: a string, its bytes, or an array.
Value: TypeAlias = str | bytes | np.ndarray

# Callback after each batch, with the number of items in it.
Progress: TypeAlias = Callable[[int], object]

# Dtype and rank of each tensor of a request or a response, by name; the first axis is the batch.
Columns: TypeAlias = dict[str, tuple[str, int]]

# Tensors of several sources, one for each column of a request; or the inputs of a model.
Batch: TypeAlias = tuple[Tensor, ...]

# Inputs of a model: one tensor, or several by name.
Inputs: TypeAlias = Tensor | dict[str, Tensor]

# Argument of `model.fit`: a `tf.data` dataset, a `keras.utils.PyDataset` or a torch `DataLoader`.
Batches: TypeAlias = object

# Source text and target text.
Pair: TypeAlias = tuple[str, str]

# Text and its label or labels.
LabelledText: TypeAlias = tuple[str, str | tuple[str, ...]]

# Tokens of a text and one tag per token.
TaggedText: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]

# Static shape, as Keras passes it to `build`; None for unknown sizes.
Shape: TypeAlias = tuple[int | None, ...]

# Integers in files. TensorFlow and sacreBLEU accept only 32 bits.
Count: TypeAlias = Annotated[int, Field(ge=1, lt=2**31)]
Length: TypeAlias = Annotated[int, Field(ge=2, lt=2**31)]

# Constructor arguments as `get_config` returns them, ready for JSON.
Config: TypeAlias = dict[str, Any]


# Most negative float32, used as minus infinity before a softmax. It absorbs every logit that is added to it,
# and stays finite: a row of infinities would have NaN gradients.
MINUS_INFINITY = -3.4028235e38

# Log-probability of impossible sequences. Sums of it stay finite, so a search needs no special case when
# there are fewer sequences than hypotheses.
LOWEST_SCORE = -1e30


class SpecialIds(NamedTuple):
    """Ids of the special tokens."""

    pad: int = 0
    """Padding; fills a finished hypothesis to the length of the longest."""
    unknown: int = 1
    """Unknown word; never generated."""
    start: int = 2
    """Start token, the first input of the decoder; never generated."""
    end: int = 3
    """End token; ends a hypothesis."""


NOT_COUNTED = -100
"""Tag of positions that the loss ignores: all but the first token of each word."""
SPECIAL_IDS = SpecialIds()
"""Ids of the special tokens in every vocabulary of this package."""

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[START]", "[END]")
"""Names of the special tokens, in the order of `SPECIAL_IDS`; the first entries of every vocabulary."""

OPTIMIZATIONS = ("float32", "bfloat16", "xla")
"""Values of `optimize` for SavedModels: unchanged, weights of half the size, search compiled by XLA."""

FIXED_OPTIMIZATIONS = ("float32", "int8")
"""Values of `optimize` for single-file exports, of fixed shapes: unchanged, weights a third of the size."""

Signature: TypeAlias = str
"""Name of a function of a task and its export, such as `serving_default`."""
