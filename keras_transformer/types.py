"""Type names that say what annotations mean."""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field

# Keras tensors have no common static type: each backend brings its own class.
Tensor: TypeAlias = Any

# One source of a task: a string, its bytes, or an array.
Value: TypeAlias = str | bytes | np.ndarray

# Called after each batch with the number of items in it.
Progress: TypeAlias = Callable[[int], object]

# The dtype and rank of each tensor of a request or an answer, by its name; the first axis is the batch.
Columns: TypeAlias = dict[str, tuple[str, int]]

# The inputs of a model: one tensor, or several by name.
Inputs: TypeAlias = Tensor | dict[str, Tensor]

# What `model.fit` reads: a dataset of `tf.data`, a `keras.utils.PyDataset`, a loader of torch.
Batches: TypeAlias = object

# A source text and its target text.
Pair: TypeAlias = tuple[str, str]

# A text and its label, or its labels.
LabelledText: TypeAlias = tuple[str, str | tuple[str, ...]]

# The tokens of a text, and the tag of each.
TaggedText: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]

# A static shape as Keras passes it to `build`: None where a size is not known.
Shape: TypeAlias = tuple[int | None, ...]

# Numbers of a file. TensorFlow and sacreBLEU take no larger ones.
Count: TypeAlias = Annotated[int, Field(ge=1, lt=2**31)]
Length: TypeAlias = Annotated[int, Field(ge=2, lt=2**31)]

# The arguments of a constructor as `get_config` returns them, ready for JSON.
Config: TypeAlias = dict[str, Any]


# Stands for minus infinity before a softmax, the most negative float32. It absorbs every logit, added or in
# its place, and stays finite: a row of infinities has NaN gradients.
MINUS_INFINITY = -3.4028235e38

# Stands for a log-probability of minus infinity. Unlikely is not impossible: sums of it stay finite, so that
# a search with fewer sequences than hypotheses needs no special case.
LOWEST_SCORE = -1e30


class SpecialIds(NamedTuple):
    """The token ids that a search must know."""

    pad: int = 0
    """Fills a finished hypothesis up to the length of the longest."""
    unknown: int = 1
    """Never generated."""
    start: int = 2
    """What decoding starts from; never generated."""
    end: int = 3
    """Ends a hypothesis."""


SPECIAL_IDS = SpecialIds()
"""The ids of the special tokens in every vocabulary of this package."""

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[START]", "[END]")
"""Names of the special tokens, in the order of `SPECIAL_IDS`; they begin every vocabulary."""

OPTIMIZATIONS = ("float32", "bfloat16", "xla")
"""Values of `optimize` of SavedModels: nothing, weights of half the size, a compiled search."""

FIXED_OPTIMIZATIONS = ("float32", "int8")
"""Values of `optimize` of single files, whose sizes are fixed: nothing, weights of a third of the size."""

Signature: TypeAlias = str
"""What a task and its export can be asked for, such as `serving_default`."""
