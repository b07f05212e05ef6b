"""Train a text classifier from a CSV file, and export it for TensorFlow Serving.

The script writes the file: messages to a shop. Each message names a problem of one of four departments; half
of them also mention a solved problem of another department, so that counting words is not enough. The labels
of held-out messages must be right, and the SavedModel must return the same labels.

python examples/labelled_texts.py          a minute, 99 % right; at least 95 %
python examples/labelled_texts.py --small  half a minute, 98 %; at least 90 %
"""

import argparse
import csv
import random
import tempfile
from pathlib import Path

import keras

import keras_transformer as kt

PROBLEMS = {
    "delivery": "parcel has not arrived|courier never came|shipment is late|box stood at the wrong door",
    "refund": "money is not back yet|amount was charged twice|invoice is too high|discount is missing",
    "account": "password does not work|login page says error|profile shows another name|code never came",
    "product": "screen has a crack|battery is dead after an hour|zip is broken|lamp does not turn on",
}


def write_messages(path: Path, num: int, seed: int) -> None:
    """Write messages and their departments as CSV, with a typing error in every third message."""
    draw = random.Random(seed)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("text", "label"))
        for number in range(num):
            names = draw.sample([*PROBLEMS], 2)
            problem, solved = (draw.choice(PROBLEMS[name].split("|")) for name in names)
            texts = [f"{problem}.", f"the {solved}, that is solved, but the {problem}."]
            texts.append(f"the {problem}; that the {solved} is solved.")
            text = f"{draw.choice(('Hello,', 'Please help:'))} {texts[number % 2 * draw.choice((1, 2))]}"
            at = draw.randrange(len(text)) if number % 3 == 0 else len(text)
            rows.writerow((text[:at] + text[at + 1 :], names[0]))


def main() -> None:
    """Write the files, train, score, export, and call the export."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a small model, trained for seconds")
    width, epochs, wanted = (64, 4, 0.9) if parser.parse_args().small else (128, 8, 0.95)

    keras.utils.set_random_seed(0)
    with tempfile.TemporaryDirectory() as directory:
        training, test = Path(directory, "training.csv"), Path(directory, "test.csv")
        write_messages(training, 4000, seed=0)
        write_messages(test, 800, seed=1)
        examples = kt.data.read_labelled(training)
        labels = kt.data.label_names(examples)
        tokenizer = kt.text.SubwordTokenizer.train([text for text, _ in examples], 400, lowercase=True)
        dataset = kt.data.classification_dataset(examples, tokenizer, labels, tokens_per_batch=1024)

        size = {"num_layers": 2, "hidden_dim": width, "num_heads": 4, "intermediate_dim": 2 * width}
        model = kt.EncoderModel(tokenizer.vocabulary_size, len(labels), pooling="mean", **size)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"], jit_compile=False)
        model.fit(dataset, epochs=epochs, shuffle=False, verbose=2)

        texts, right = zip(*kt.data.read_labelled(test), strict=True)
        classifier = kt.TextClassifier(model, tokenizer, labels)
        found = [each.label for each in classifier.classify(texts)]
        report = kt.evaluation.evaluate_labels(found, right, labels)
        print(report)
        assert report["accuracy"] >= wanted, f"{report['accuracy']:.1%}. Wanted: {wanted:.0%}."
        version = kt.export.export_saved_model(classifier, Path(directory, "messages"), texts[:8])
        assert [each.label for each in kt.export.ServedClassifier(version).classify(texts)] == found


if __name__ == "__main__":
    main()
