"""Train a model that reads images of digits and writes them as words.

The source is 8 frames of 8 pixels, the target a word of up to 6 letters. Length and width of source and
target may differ, since each kernel of cross-attention projects its input to the width of the heads. The
pixels are scaled here, so the translator needs no statistics of them.

python examples/digits_to_words.py          2 to 3 minutes, at least 95 % exact
python examples/digits_to_words.py --small  seconds, at least 80 %
"""

import argparse
import tempfile
from typing import Any

import keras
import numpy as np
from sklearn.datasets import load_digits

import keras_transformer as kt

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
NUM_HELD_OUT = 360


def read_images() -> tuple[Any, Any]:
    """Return the images `(n, 8, 8)`, pixels from 0 to 1, and their digits `(n,)`, in random order."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    return digits.images[order].astype("float32") / 16, digits.target[order]


def spell(tokenizer: kt.text.Tokenizer, numbers: Any) -> Any:
    """Return the token ids of the words, with start and end tokens, padded: `(n, 7)`."""
    letters = tokenizer.tokenize(WORDS).to_list()
    rows = [[kt.text.SPECIAL_IDS.start, *letters[number], kt.text.SPECIAL_IDS.end] for number in numbers]
    return keras.utils.pad_sequences(rows, maxlen=7, padding="post", value=kt.text.SPECIAL_IDS.pad)


def main() -> None:
    """Train, write the words of held-out images, and check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a smaller model, trained for seconds")
    small = parser.parse_args().small
    hidden_dim, epochs, wanted = (32, 8, 0.8) if small else (64, 60, 0.95)

    keras.utils.set_random_seed(0)
    images, numbers = read_images()
    tokenizer = kt.text.CharacterTokenizer.train(WORDS)
    model = kt.Transformer(
        None,  # no source vocabulary: a row of pixels is a frame of 8 numbers
        tokenizer.vocabulary_size,
        encoder_feature_dim=8,
        num_layers=1 if small else 2,
        hidden_dim=hidden_dim,
        num_heads=4,
        intermediate_dim=2 * hidden_dim,
    )
    model.compile(
        keras.optimizers.Adam(3e-3 if small else 1e-3),
        loss=kt.training.MaskedCrossentropy(),
        metrics=[kt.training.MaskedAccuracy()],
        jit_compile=False,
    )
    words = spell(tokenizer, numbers)
    training, held_out = slice(NUM_HELD_OUT, None), slice(NUM_HELD_OUT)
    inputs = {"encoder_features": images[training], "decoder_token_ids": words[training, :-1]}
    model.fit(inputs, words[training, 1:], batch_size=64, epochs=epochs, verbose=2)

    translator = kt.Translator(model, target_tokenizer=tokenizer, search=kt.decoding.GreedySearch())
    with tempfile.TemporaryDirectory() as directory:
        translator.save(directory)
        spelled = kt.Translator.load(directory).translate(images[held_out])
    exact = np.mean([text == WORDS[number] for text, number in zip(spelled, numbers[held_out], strict=True)])
    print("the first images:", *spelled[:8])
    print(f"spelled exactly: {exact:.1%} of {NUM_HELD_OUT} images held out, wanted {wanted:.0%}")
    assert exact >= wanted, f"{exact:.1%} of the images were spelled. Wanted: {wanted:.0%}."


if __name__ == "__main__":
    main()
