"""Train the Transformer of a course assignment, with the course's names, to write digits in reverse order.

python examples/course_assignment.py          2 minutes, 99.8 % of 500 sequences exact; at least 99 %
python examples/course_assignment.py --small  seconds, shorter sequences; at least 90 %
"""

import argparse
from typing import Any

import keras
import numpy as np

from keras_transformer import course

PAD, START, END, FIRST_DIGIT = 0, 1, 2, 3
VOCABULARY = FIRST_DIGIT + 10


def draw_pairs(count: int, longest: int, seed: int) -> tuple[Any, Any]:
    """Draw digits `(count, longest)`, and the reversed digits between a start and an end token."""
    generator = np.random.default_rng(seed)
    sources = np.full((count, longest), PAD)
    targets = np.full((count, longest + 2), PAD)
    for source, target in zip(sources, targets, strict=True):
        length = generator.integers(2, longest + 1)
        source[:length] = generator.integers(FIRST_DIGIT, VOCABULARY, length)
        target[: length + 2] = [START, *source[:length][::-1], END]
    return sources, targets


def inputs_of(sources: Any, outputs: Any) -> dict[str, Any]:
    """Build the masks; `fit` splits them into batches, so each mask needs a row for every example."""
    padding_mask = keras.ops.convert_to_numpy(course.create_padding_mask(sources))  # (n, 1, s)
    look_ahead_mask = keras.ops.convert_to_numpy(course.create_look_ahead_mask(outputs.shape[1]))
    return {
        "input_sentence": sources,
        "output_sentence": outputs,
        "enc_padding_mask": padding_mask,
        "look_ahead_mask": np.repeat(look_ahead_mask, len(outputs), axis=0),  # (n, t, t)
        "dec_padding_mask": padding_mask,
    }


def reverse(model: course.Transformer, sources: Any) -> Any:
    """Write the most likely digit at each step, and padding after the end token."""
    output = np.full((len(sources), 1), START)
    ended = np.zeros((len(sources), 1), bool)
    for _ in range(sources.shape[1] + 1):
        word = keras.ops.convert_to_numpy(course.next_word(model, sources, output))
        output = np.concatenate([output, np.where(ended, PAD, word)], axis=1)
        ended |= word == END
    return output


def main() -> None:
    """Train, decode new sequences, and check the outputs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--small", action="store_true", help="shorter sequences, trained for seconds")
    small = parser.parse_args().small
    longest, epochs, wanted = (4, 12, 0.9) if small else (6, 30, 0.99)

    keras.utils.set_random_seed(0)
    sources, targets = draw_pairs(4000, longest, seed=0)
    model = course.Transformer(1, 32, 2, 64, VOCABULARY, VOCABULARY, longest, longest + 2, dropout_rate=0.0)
    jit_compile = False if small else "auto"  # a small model is trained before it is compiled
    model.compile(keras.optimizers.Adam(3e-3), loss=course.masked_loss, jit_compile=jit_compile)
    # Teacher forcing: the decoder sees the true words before the one that it predicts.
    model.fit(inputs_of(sources, targets[:, :-1]), targets[:, 1:], batch_size=128, epochs=epochs, verbose=2)

    sources, targets = draw_pairs(500, longest, seed=1)
    exact = float(np.mean(np.all(reverse(model, sources) == targets, axis=1)))
    print(f"reversed exactly: {exact:.1%} of {len(sources)} sequences, wanted {wanted:.0%}")
    assert exact >= wanted, f"{exact:.1%} of the sequences were reversed. Wanted: {wanted:.0%}."


if __name__ == "__main__":
    main()
