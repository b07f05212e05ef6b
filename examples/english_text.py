"""Train a decoder-only model on English text, character by character.

The text is the help topics of Python. The model predicts each character from those before it in a window.
On held-out topics it must need fewer bits for each character than a bigram table of the same text.

python examples/english_text.py          5 minutes, 2.3 bits where counting needs 3.8; at least 1.2 less
python examples/english_text.py --small  seconds, 3.5 bits; at least 0.2 less
"""

import argparse
import math
from pydoc_data.topics import topics
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import keras_transformer as kt


def read_texts() -> tuple[str, str]:
    """Return nine of ten topics for training, and every tenth as held-out text."""
    texts = [topics[name] for name in sorted(topics)]
    held_out = texts[::10]
    return "\n".join(text for text in texts if text not in held_out), "\n".join(held_out)


def windows(token_ids: Any, length: int, shift: int) -> tf.data.Dataset:
    """Cut windows from the stream `(n,)`; the inputs are the labels, shifted by a start token."""

    def cut(start: Any) -> tuple[Any, Any]:
        window = tf.slice(token_ids, [start], [length])
        return tf.concat([[kt.text.SPECIAL_IDS.start], window[:-1]], axis=0), window

    return tf.data.Dataset.range(0, len(token_ids) - length + 1, shift).map(cut)


def bits_by_counting(training: Any, held_out: Any, vocabulary_size: int) -> float:
    """Return the bits for each character of a bigram table, with 0.1 added to each count."""
    training, held_out = np.asarray(training), np.asarray(held_out)
    counts = np.full((vocabulary_size, vocabulary_size), 0.1)
    np.add.at(counts, (training[:-1], training[1:]), 1)
    probabilities = counts / counts.sum(axis=1, keepdims=True)
    return float(-np.log2(probabilities[held_out[:-1], held_out[1:]]).mean())


def main() -> None:
    """Train, compare with the bigram table, and print text that the model writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a small model, trained for seconds")
    small = parser.parse_args().small
    size = {"num_layers": 1, "hidden_dim": 64} if small else {"num_layers": 2, "hidden_dim": 128}
    length, num_steps, wanted = (32, 450, 0.2) if small else (96, 1200, 1.2)

    keras.utils.set_random_seed(0)
    texts = read_texts()
    tokenizer = kt.text.CharacterTokenizer.train(texts)
    training, held_out = tokenizer.tokenize(texts)
    model = kt.CausalLM(
        tokenizer.vocabulary_size, **size, num_heads=4, intermediate_dim=256, dropout=0.0, norm_first=True
    )
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(3e-3, num_steps))
    loss, metrics = kt.training.MaskedCrossentropy(), [kt.training.Perplexity()]
    model.compile(optimizer, loss=loss, metrics=metrics, jit_compile=False)
    batches = windows(training, length, shift=29).shuffle(20_000, seed=0).repeat().batch(32)
    model.fit(batches, steps_per_epoch=num_steps // 5, epochs=5, shuffle=False, verbose=2)

    result = model.evaluate(windows(held_out, length, shift=length).batch(64), verbose=0, return_dict=True)
    bits = math.log2(result["perplexity"])
    counted = bits_by_counting(training, held_out, tokenizer.vocabulary_size)
    generator = kt.TextGenerator(model, tokenizer, max_length=length - 1)
    print(*generator.generate(["The object "]))
    print(f"bits for each character: {bits:.2f}, by counting pairs {counted:.2f}, wanted {wanted} less")
    assert bits <= counted - wanted, f"{bits:.2f} bits. Wanted: {counted - wanted:.2f}."


if __name__ == "__main__":
    main()
