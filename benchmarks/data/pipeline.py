"""Measures the speed of the data pipeline, and how long training steps wait for their batches.

python -m benchmarks.data.pipeline SOURCE TARGET

SOURCE and TARGET have a sentence on each line, plain or `.gz`. `alone` is an epoch without training;
`waiting` is the fraction of time that the first steps of an epoch wait, the wait for the first batch
included. The model has the smallest preset, whose steps are the shortest.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

import keras_transformer as kt
from benchmarks.common import conditions, table

HEADS = ("pipeline", "target tokens a second, alone", "padding of the target", "waiting")


def pipelines(source: Path, target: Path, vocabulary_size: int, tokens: int) -> dict[str, tf.data.Dataset]:
    """Return the datasets of one corpus by their names."""
    pairs = list(kt.data.ParallelText(source, target))
    tokenizer = kt.text.SubwordTokenizer.train([text for pair in pairs for text in pair], vocabulary_size)
    encoded = kt.data.EncodedPairs.encode(pairs, tokenizer, tokenizer)
    noise = [kt.data.subword_dropout(tokenizer, tokenizer, 0.1)]
    size = {"tokens_per_batch": tokens}
    return {
        "in memory": kt.data.translation_dataset(encoded, **size),
        "in memory, subword dropout": kt.data.translation_dataset(encoded, noise=noise, **size),
    }


def seconds_alone(dataset: tf.data.Dataset) -> float:
    """Iterate over an epoch."""
    start = time.perf_counter()
    for _ in dataset:
        pass
    return time.perf_counter() - start


def waiting(dataset: tf.data.Dataset, step: Callable[..., object], num_steps: int) -> float:
    """Train on the first batches of an epoch; return the fraction of time without a batch, 0 to 1."""
    waited, start = 0.0, time.perf_counter()
    batches = iter(dataset)
    for _ in range(num_steps):
        asked = time.perf_counter()
        batch = next(batches, None)
        waited += time.perf_counter() - asked
        if batch is None:
            break
        step(*batch)
    return waited / (time.perf_counter() - start)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--vocabulary", type=int, default=8000, help="entries")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens of a batch")
    parser.add_argument("--steps", type=int, default=40, help="steps that wait")
    parser.add_argument("--rounds", type=int, default=3, help="medians are shown")
    options = parser.parse_args()
    sizes = (options.vocabulary, options.vocabulary)
    model = kt.Transformer.from_preset("tiny", *sizes, share_embeddings=True)
    kt.training.compile_model(model, 1e-3)
    rows = []
    for name, dataset in pipelines(
        options.source, options.target, options.vocabulary, options.tokens
    ).items():
        labels = [labels for _, labels in dataset.as_numpy_iterator()]
        num_tokens = sum(int((each > 0).sum()) for each in labels)
        padding = 1 - num_tokens / sum(each.size for each in labels)
        seconds = statistics.median(seconds_alone(dataset) for _ in range(options.rounds))
        waiting(dataset, model.train_on_batch, 5)  # traces the step
        shares = [waiting(dataset, model.train_on_batch, options.steps) for _ in range(options.rounds)]
        rate = f"{num_tokens / seconds:,.0f}"
        rows.append([name, rate, f"{padding:.1%}", f"{statistics.median(shares):.2%}"])
    print(f"{table(HEADS, rows)}\n\n{conditions('tensorflow', 'keras')}")


if __name__ == "__main__":
    main()
