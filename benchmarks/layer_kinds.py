"""Self-attention, recurrence and convolution: the layers of Table 1 in "Attention Is All You Need"."""

import dataclasses
from collections.abc import Callable

import keras

import keras_transformer as kt

NUM_HEADS = 8
KERNEL_SIZE = 3


def attention_multiply_adds(length: int, width: int) -> int:
    """Count four projections, and the products of queries and keys, and of scores and values.

    Args:
        length: of the sequence, n.
        width: of the layer, d.

    Returns:
        4 n d² + 2 n² d.
    """
    return 4 * length * width**2 + 2 * length**2 * width


def recurrent_multiply_adds(length: int, width: int, num_gates: int) -> int:
    """Count for each gate the product with the input and that with the state.

    Args:
        length: of the sequence, n.
        width: of the layer, d.
        num_gates: 4 of an LSTM, 3 of a GRU.

    Returns:
        2 g n d².
    """
    return 2 * num_gates * length * width**2


def convolution_multiply_adds(length: int, width: int, kernel_size: int) -> int:
    """Count a product of matrices for each place of the kernel, those on padding included.

    Args:
        length: of the sequence, n.
        width: of the layer, d.
        kernel_size: k.

    Returns:
        k n d².
    """
    return kernel_size * length * width**2


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of layer, and what the paper's table says of it."""

    name: str
    build: Callable[[int], keras.layers.Layer]
    multiply_adds: Callable[[int, int], int]
    formula: str
    sequential_operations: str
    path_length: str


def _attention(width: int) -> keras.layers.Layer:
    return kt.layers.MultiHeadAttention(num_heads=NUM_HEADS, key_dim=width // NUM_HEADS)


KINDS = (
    Kind("self-attention", _attention, attention_multiply_adds, "4 n d² + 2 n² d", "O(1)", "O(1)"),
    Kind(
        "LSTM",
        lambda width: keras.layers.LSTM(width, return_sequences=True),
        lambda length, width: recurrent_multiply_adds(length, width, 4),
        "8 n d²",
        "O(n)",
        "O(n)",
    ),
    Kind(
        "GRU",
        lambda width: keras.layers.GRU(width, return_sequences=True),
        lambda length, width: recurrent_multiply_adds(length, width, 3),
        "6 n d²",
        "O(n)",
        "O(n)",
    ),
    Kind(
        f"convolution, kernel {KERNEL_SIZE}",
        lambda width: keras.layers.Conv1D(width, KERNEL_SIZE, padding="same"),
        lambda length, width: convolution_multiply_adds(length, width, KERNEL_SIZE),
        f"{KERNEL_SIZE} n d²",
        "O(1)",
        "O(n/k)",
    ),
)
