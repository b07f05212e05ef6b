"""Train a model that reads windows of three sensors and writes the events in them.

Each window has 20 to 114 frames of three channels, as of an accelerometer, with noise, drift and up to four
events. The output names the events in their order, such as "tap shake turn". The script generates the data.

python examples/sensor_events.py          5 minutes, 99.5 % of the windows held out exact; at least 95 %
python examples/sensor_events.py --small  half a minute, a tenth of the training; at least 20 %
"""

import argparse
import tempfile
from typing import Any

import keras
import numpy as np

import keras_transformer as kt

NUM_TRAINING, NUM_HELD_OUT = 3_500, 200


def make_window(generator: np.random.Generator) -> tuple[Any, str]:
    """Return frames `(s, 3)` with the units and offsets of real sensors, and the names of their events."""
    shapes = {
        "tap": lambda t: np.stack([0 * t, 0 * t, 4 * np.exp(-60 * t)]),  # one short pulse of the last channel
        "shake": lambda t: np.stack([2 * np.sin(25 * t), 0 * t, 0 * t]),  # the first goes to and fro
        "turn": lambda t: np.stack([0 * t, 2 * np.sin(np.pi * t), 0 * t]),  # the second rises and falls
        "drop": lambda t: np.stack([0 * t, -1 + 0 * t, -2 + 0 * t]),  # two are lower for a while
    }
    names, parts = [], [np.zeros((3, generator.integers(6, 15)))]
    for _ in range(generator.integers(1, 5)):
        names.append(generator.choice([*shapes]))
        time = np.linspace(0, 1, generator.integers(10, 18))
        parts += [
            generator.uniform(0.8, 1.3) * shapes[names[-1]](time),
            np.zeros((3, generator.integers(4, 9))),
        ]
    frames = np.concatenate(parts, axis=1).T
    frames += generator.normal(0, 0.3, frames.shape) + np.linspace(0, 1, len(frames))[
        :, None
    ] * generator.normal(0, 0.3)
    return (frames * [20, 0.1, 3] + [500, 0, 9.81]).astype("float32"), " ".join(names)


def main() -> None:
    """Train with default options; check the outputs for held-out windows, and those of an export."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a tenth of the training")
    small = parser.parse_args().small

    keras.utils.set_random_seed(0)
    generator = np.random.default_rng(0)
    pairs = [make_window(generator) for _ in range(NUM_TRAINING + NUM_HELD_OUT)]
    training, held_out = pairs[:NUM_TRAINING], pairs[NUM_TRAINING:]
    recipe = kt.runs.Recipe.of(training)
    dataset = kt.data.translation_dataset(
        training, recipe.source_reader, recipe.tokenizer, tokens_per_batch=recipe.tokens_per_batch
    )
    sizes = {"encoder_feature_dim": 3, "source_convolutions": True, "dropout": recipe.dropout}
    model = kt.Transformer.from_preset("tiny", None, recipe.tokenizer.vocabulary_size, **sizes)
    kt.training.compile_model(model, recipe.learning_rate)
    model.fit(dataset, epochs=recipe.epochs // 10 if small else recipe.epochs, verbose=2)

    translator = kt.Translator(model, recipe.source_reader, recipe.tokenizer)
    windows, events = [window for window, _ in held_out], [text for _, text in held_out]
    answers = translator.translate(windows)
    exact = kt.evaluation.evaluate(answers, events)["exact_match"]
    print(f"{len(windows[0])} frames: {answers[0]}")
    print(f"events named exactly: {exact:.1%} of {NUM_HELD_OUT} windows held out")
    assert exact >= (0.2 if small else 0.95)
    with tempfile.TemporaryDirectory() as directory:
        exported = kt.export.export_saved_model(translator, f"{directory}/sensors", windows)
        assert kt.export.ServedModel(exported).translate(windows) == answers


if __name__ == "__main__":
    main()
