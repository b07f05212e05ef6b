"""Learns to add numbers of at most 5 digits, and adds numbers of 15 (Jelassi et al. 2023).

    python examples/recipes/addition.py --seed 1

An encoder reads the digits of both numbers in turns, the last digits first, and tags each column with a digit
of the sum. It has relative position keys (Shaw et al. 2018), and a tagged token attends to its own column and
to the three before, so that no distance is new in longer numbers. Carries from further back pass through the
layers. The two numbers have different tokens: from equal ones, attention cannot tell how many there are.
"""

import argparse
from typing import Any

import keras
import numpy as np

import keras_transformer as kt

# 0 is padding, 1 to 11 are the digits and the end of the first number, 12 to 22 those of the second.
END = 11
LONGEST_TRAINED = 5
WINDOW = 8  # tokens, the token itself among them


def make_sums(count: int, rng: np.random.Generator, shortest: int, longest: int) -> tuple[Any, Any]:
    """Return tokens and tags `(count, 2 * longest + 2)` of random numbers of `shortest` to `longest` digits.

    Tag 0 is padding, and 1 to 10 are the digits of the sum, at the tokens of the second number. In half of
    the training sums, digits often add to 9, so that carries run over several columns.
    """
    num_columns = longest + 1  # with the last carry
    columns = np.arange(num_columns)
    first, second = rng.integers(0, 10, (2, count, num_columns))
    if shortest < longest:
        carries = (rng.random((count, 1)) < 0.5) & (rng.random((count, num_columns)) < 0.7)
        second = np.where(carries, 9 - first, second)
    lengths = rng.integers(shortest, longest + 1, (2, count, 1))
    first, second = (np.where(columns < n, d, -1) for n, d in zip(lengths, (first, second), strict=True))
    is_used = columns <= lengths.max(axis=0)
    totals, carry = np.zeros((count, num_columns), int), np.zeros(count, int)
    for column in columns:
        total = first[:, column].clip(0) + second[:, column].clip(0) + carry
        totals[:, column], carry = total % 10, total // 10
    tokens, tags = np.zeros((2, count, num_columns, 2), "int32")
    for side, digits in enumerate((first, second)):
        tokens[:, :, side] = np.where(is_used, np.where(digits < 0, END, digits + 1) + side * END, 0)
    tags[:, :, 1] = np.where(is_used, totals + 1, 0)
    # (n, columns, 2) -> (n, 2 * columns)
    return tokens.reshape(count, -1), tags.reshape(count, -1)


class Adder(keras.Model):
    """An encoder in which a token attends to itself and to the tokens just before it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.embedding = kt.layers.TokenEmbedding(2 * END + 1, 64)
        self.encoder = kt.layers.Encoder(
            num_layers=4, num_heads=4, intermediate_dim=256, norm_first=True, positions="relative_keys"
        )
        self.tags = keras.layers.Dense(11)

    def call(self, tokens: Any, training: bool | None = None) -> Any:
        positions = keras.ops.arange(keras.ops.shape(tokens)[1])
        distances = positions[:, None] - positions[None, :]
        window = (distances >= 0) & (distances < WINDOW)
        vectors = self.encoder(self.embedding(tokens), attention_mask=window, training=training)
        return self.tags(vectors)


def train(seed: int, num_steps: int = 10_000, batch_size: int = 128) -> keras.Model:
    """Train on numbers of 1 to 5 digits."""
    keras.utils.set_random_seed(seed)
    model = Adder()
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, num_steps, warmup_target=1e-3, warmup_steps=num_steps // 20
    )
    model.compile(keras.optimizers.Adam(rate, beta_2=0.98), kt.training.MaskedCrossentropy())
    tokens, tags = make_sums(num_steps * batch_size, np.random.default_rng(seed), 1, LONGEST_TRAINED)
    model.fit(tokens, tags, batch_size=batch_size, verbose=2)
    return model


def exact_sums(model: keras.Model, num_digits: int, count: int = 10_000) -> float:
    """Return the fraction of exact sums of two random numbers of `num_digits` digits."""
    tokens, tags = make_sums(count, np.random.default_rng(0), num_digits, num_digits)
    found = model.predict(tokens, batch_size=500, verbose=0).argmax(axis=-1)
    return float(((found == tags) | (tags == 0)).all(axis=1).mean())


def main() -> None:
    """Train, and print the exact sums by the number of digits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10_000)
    options = parser.parse_args()
    model = train(options.seed, options.steps)
    for num_digits in (5, 8, 10, 12, 15, 18, 30):
        print(f"{num_digits} digits: {exact_sums(model, num_digits):.1%} exact")


if __name__ == "__main__":
    main()
