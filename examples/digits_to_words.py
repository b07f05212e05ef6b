"""Scanned numbers to words: rows of pixels in, spelled numbers out.

Each source is a number of two digits, written by hand: 16 frames of 8 pixels, the rows of one image below
those of the other. The target is its name, such as "forty-two". The images come with scikit-learn.

python examples/digits_to_words.py          minutes, at least 90 % exact
python examples/digits_to_words.py --small  a tenth of the training, at least 30 %
"""

import argparse
import tempfile
from typing import Any

import keras
import numpy as np
from sklearn.datasets import load_digits

import keras_transformer as kt

NAMES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
)
NAMES += "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
NUM_HELD_OUT = 360  # images, of which no number to train on has any


def spell(number: int) -> str:
    """Name a number below 100."""
    names, (tens, ones) = NAMES.split(), divmod(number, 10)
    if number < 20:
        return names[number]
    return names[18 + tens] + (f"-{names[ones]}" if ones else "")


def write_numbers(images: Any, digits: Any, count: int, seed: int) -> list[tuple[Any, str]]:
    """Put two images one below the other, `(16, 8)`, and name the number that they show."""
    drawn = np.random.default_rng(seed).integers(len(images), size=(count, 2))
    return [
        (np.concatenate(images[[tens, ones]]), spell(10 * digits[tens] + digits[ones]))
        for tens, ones in drawn
    ]


def main() -> None:
    """Train with what the package chooses, and spell numbers held out, also from a saved translator."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a tenth of the training")
    small = parser.parse_args().small

    keras.utils.set_random_seed(0)
    scanned = load_digits()
    order = np.random.default_rng(0).permutation(len(scanned.target))
    images, digits = scanned.images[order].astype("float32"), scanned.target[order].tolist()
    training = write_numbers(images[NUM_HELD_OUT:], digits[NUM_HELD_OUT:], 4_000, seed=1)
    held_out = write_numbers(images[:NUM_HELD_OUT], digits[:NUM_HELD_OUT], 200, seed=2)

    recipe = kt.runs.Recipe.of(training)
    dataset = kt.data.translation_dataset(
        training, recipe.source_reader, recipe.tokenizer, tokens_per_batch=recipe.tokens_per_batch
    )
    size = recipe.tokenizer.vocabulary_size
    model = kt.Transformer.from_preset("tiny", None, size, encoder_feature_dim=8, dropout=recipe.dropout)
    kt.training.compile_model(model, recipe.learning_rate)
    model.fit(dataset, epochs=recipe.epochs // 10 if small else recipe.epochs, verbose=2)

    translator = kt.Translator(model, recipe.source_reader, recipe.tokenizer)
    with tempfile.TemporaryDirectory() as directory:
        translator.save(directory)
        translator = kt.Translator.load(directory)
    answers = translator.translate([frames for frames, _ in held_out])
    exact = kt.evaluation.evaluate(answers, [name for _, name in held_out])["exact_match"]
    print("the first numbers:", *answers[:6], sep="  ")
    print(f"spelled exactly: {exact:.1%} of {len(held_out)} numbers held out")
    assert exact >= (0.3 if small else 0.9)


if __name__ == "__main__":
    main()
