"""Train a decoder-only model on the sequence 1 0 1 0 ..., so that it continues every beginning exactly.

The token id of a symbol is the symbol plus 4: ids 0 to 3 are padding, unknown, start and end. A symbol with
id 0 would be padding: masked in attention, and ignored by the loss.

python examples/alternating_sequence.py          a minute, 31 lengths, all 62 beginnings exact
python examples/alternating_sequence.py --small  seconds, 7 lengths, all 14 beginnings exact
"""

import argparse
from typing import Any

import keras
import numpy as np

import keras_transformer as kt

OFFSET = len(kt.text.SPECIAL_IDS)


def alternate(first: int, length: int) -> list[int]:
    """Return the token ids of a sequence that starts with 0 or 1."""
    return [OFFSET + (first + place) % 2 for place in range(length)]


def draw_rows(count: int, longest: int, seed: int) -> Any:
    """Draw sequences of 2 to `longest` symbols, padded at the end, as rows `(count, longest + 1)`."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(2, longest + 1, count)
    firsts = generator.integers(0, 2, count)
    rows = [
        [kt.text.SPECIAL_IDS.start, *alternate(first, length)]
        for first, length in zip(firsts, lengths, strict=True)
    ]
    return keras.utils.pad_sequences(rows, maxlen=longest + 1, padding="post", value=kt.text.SPECIAL_IDS.pad)


def count_exact(model: kt.CausalLM, longest: int) -> int:
    """Continue all beginnings of 1 to `longest - 1` symbols up to `longest`; count the exact ones."""
    num_exact = 0
    for length in range(1, longest):
        wanted = np.array([alternate(first, longest) for first in (0, 1)])
        prompts = np.insert(wanted[:, :length], 0, kt.text.SPECIAL_IDS.start, axis=1)
        search = kt.decoding.GreedySearch(special_ids=kt.text.SPECIAL_IDS)
        answers = kt.decoding.generate(model, prompts, search, max_length=longest - length)
        answers = keras.ops.convert_to_numpy(answers.token_ids)[:, 0]
        num_exact += int(np.sum(np.all(answers == wanted[:, length:], axis=1)))
        print(*prompts[1, 1:] - OFFSET, "->", *answers[1] - OFFSET)
    return num_exact


def main() -> None:
    """Train, continue every beginning, and check that all are right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--small", action="store_true", help="shorter sequences, trained for seconds")
    small = parser.parse_args().small
    longest, epochs = (8, 5) if small else (32, 15)

    keras.utils.set_random_seed(0)
    rows = draw_rows(2000, longest, seed=0)
    model = kt.CausalLM(
        OFFSET + 2, num_layers=1, hidden_dim=16, num_heads=2, intermediate_dim=32, dropout=0.0
    )
    model.compile(
        keras.optimizers.Adam(1e-2),
        loss=kt.training.MaskedCrossentropy(),
        metrics=[kt.training.MaskedAccuracy()],
        jit_compile=False,
    )
    # Each token is predicted from those before it: the labels are the inputs, shifted by one position.
    model.fit(rows[:, :-1], rows[:, 1:], batch_size=64, epochs=epochs, verbose=2)

    wanted = 2 * (longest - 1)
    exact = count_exact(model, longest)
    print(f"continued exactly: {exact} of {wanted} beginnings, wanted all")
    assert exact == wanted, f"{exact} beginnings were continued exactly. Wanted: {wanted}."


if __name__ == "__main__":
    main()
