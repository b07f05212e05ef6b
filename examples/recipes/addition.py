"""Learns to add numbers of at most 5 digits, and adds numbers of 15 (Jelassi et al. 2023).

    python examples/recipes/addition.py --seed 1

The encoder reads the digits of both numbers from the last to the first, and tags each digit of the first
number with that digit of the sum. Unused columns are padding. Relative position keys (Shaw et al. 2018) let a
head look at the same column of the other number, whatever the column is.
"""

import argparse
from typing import Any

import keras
import numpy as np

import keras_transformer as kt

COLUMNS = 20
PLUS, END = 11, 12  # tokens; 0 is padding, and 1 to 10 are the digits
LONGEST_TRAINED = 5


def make_sums(count: int, rng: np.random.Generator, shortest: int, longest: int) -> tuple[Any, Any]:
    """Return tokens and tags `(count, 2 * COLUMNS + 1)` of random numbers of `shortest` to `longest` digits.

    Tag 0 is padding, and 1 to 10 are the digits of the sum. Digits of half of the training sums often add to
    9, so that carries run over several columns.
    """
    columns = np.arange(COLUMNS)
    first, second = rng.integers(0, 10, (2, count, COLUMNS))
    if shortest < longest:
        carries = (rng.random((count, 1)) < 0.5) & (rng.random((count, COLUMNS)) < 0.7)
        second = np.where(carries, 9 - first, second)
    lengths = rng.integers(shortest, longest + 1, (2, count, 1))
    first, second = (np.where(columns < n, d, -1) for n, d in zip(lengths, (first, second), strict=True))
    longer = lengths.max(axis=0)
    totals, carry = np.zeros((count, COLUMNS), int), np.zeros(count, int)
    for column in columns:
        total = first[:, column].clip(0) + second[:, column].clip(0) + carry
        totals[:, column], carry = total % 10, total // 10
    tokens = np.zeros((count, 2 * COLUMNS + 1), "int32")
    tags = np.zeros_like(tokens)
    tokens[:, COLUMNS] = PLUS
    for start, digits in ((0, first), (COLUMNS + 1, second)):
        # A digit, the end of the shorter number, or padding.
        used = np.where(digits < 0, END, digits + 1)
        tokens[:, start : start + COLUMNS] = np.where(columns < longer, used, 0)
    tokens[:, :COLUMNS][columns == longer] = END
    tags[:, :COLUMNS] = np.where(columns <= longer, totals + 1, 0)
    return tokens, tags


def train(seed: int, num_steps: int = 5000, batch_size: int = 128) -> keras.Model:
    """Train on numbers of 1 to 5 digits."""
    keras.utils.set_random_seed(seed)
    model = kt.EncoderModel(
        END + 1,
        11,
        num_layers=4,
        hidden_dim=64,
        num_heads=4,
        intermediate_dim=256,
        dropout=0.1,
        norm_first=True,
        positions="relative_keys",
    )
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, num_steps, warmup_target=1e-3, warmup_steps=num_steps // 20
    )
    model.compile(keras.optimizers.Adam(rate, beta_2=0.98), kt.training.MaskedCrossentropy())
    tokens, tags = make_sums(num_steps * batch_size, np.random.default_rng(seed), 1, LONGEST_TRAINED)
    model.fit(tokens, tags, batch_size=batch_size, verbose=2)
    return model


def exact_sums(model: keras.Model, num_digits: int, count: int = 1000) -> float:
    """Return the fraction of exact sums of two random numbers of `num_digits` digits."""
    tokens, tags = make_sums(count, np.random.default_rng(0), num_digits, num_digits)
    found = model.predict(tokens, batch_size=500, verbose=0).argmax(axis=-1)
    return float(((found == tags) | (tags == 0)).all(axis=1).mean())


def main() -> None:
    """Train, and print the exact sums by the number of digits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5000)
    options = parser.parse_args()
    model = train(options.seed, options.steps)
    for num_digits in (5, 8, 10, 12, 15, 18):
        print(f"{num_digits} digits: {exact_sums(model, num_digits):.1%} exact")


if __name__ == "__main__":
    main()
