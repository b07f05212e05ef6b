"""Measures how fast batches come, and how long the steps that they feed wait for them.

python benchmarks/pipeline.py SOURCE TARGET

SOURCE and TARGET are texts with a sentence on each line, plain or `.gz`. `alone` is an epoch that nobody
trains on; `waiting` is the part of the time of the first steps of an epoch in which there was no batch, with
the wait for the first. The model is of the smallest preset, whose steps are the shortest.
"""

import argparse
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow as tf
from machine import machine

import keras_transformer as kt

PACKAGES = ("tensorflow", "keras")
COLUMNS = ("pipeline", "target tokens a second, alone", "padding of the target", "waiting")


def pipelines(
    source: Path, target: Path, vocabulary_size: int, tokens_per_batch: int
) -> dict[str, tf.data.Dataset]:
    """Make the datasets of one corpus.

    Args:
        source: the file of the sources.
        target: the file of the targets.
        vocabulary_size: of both sides together.
        tokens_per_batch: of a batch on its longer side.

    Returns:
        each dataset, by its name.
    """
    pairs = list(kt.data.ParallelText(source, target))
    tokenizer = kt.text.SubwordTokenizer.train([text for pair in pairs for text in pair], vocabulary_size)
    encoded = kt.data.EncodedPairs.encode(pairs, tokenizer, tokenizer)
    noise = [kt.data.subword_dropout(tokenizer, tokenizer, 0.1)]
    batch = {"tokens_per_batch": tokens_per_batch}
    return {
        "in memory": kt.data.translation_dataset(encoded, **batch),
        "in memory, subword dropout": kt.data.translation_dataset(encoded, noise=noise, **batch),
    }


def make_model(vocabulary_size: int) -> kt.Transformer:
    """Compile the model whose steps wait.

    Args:
        vocabulary_size: of both sides.

    Returns:
        a model of the smallest preset.
    """
    model = kt.Transformer.from_preset("tiny", vocabulary_size, vocabulary_size, share_embeddings=True)
    kt.training.compile_model(model, 1e-3)
    return model


def seconds_alone(dataset: tf.data.Dataset) -> float:
    """Iterate over an epoch.

    Args:
        dataset: of batches.

    Returns:
        seconds.
    """
    start = time.perf_counter()
    for _ in dataset:
        pass
    return time.perf_counter() - start


def waiting(dataset: tf.data.Dataset, step: Callable[..., object], num_steps: int) -> float:
    """Train on the first batches of an epoch.

    Args:
        dataset: of batches.
        step: trains on a batch, and returns when it is done.
        num_steps: at most so many.

    Returns:
        the part of the time in which there was no batch, 0 to 1.
    """
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


def measure(options: argparse.Namespace) -> list[tuple[str, ...]]:
    """Measure every pipeline.

    Args:
        options: of the command line.

    Returns:
        a row of the table for each.
    """
    rows = []
    datasets = pipelines(options.source, options.target, options.vocabulary, options.tokens)
    step = make_model(options.vocabulary).train_on_batch  # one for all, which is traced once
    for name, dataset in datasets.items():
        labels = [labels for _, labels in dataset.as_numpy_iterator()]
        num_tokens = sum(int((each > 0).sum()) for each in labels)
        padding = 1 - num_tokens / sum(each.size for each in labels)
        seconds = statistics.median(seconds_alone(dataset) for _ in range(options.rounds))
        waiting(dataset, step, 5)  # traces it
        shares = [waiting(dataset, step, options.steps) for _ in range(options.rounds)]
        rate = f"{num_tokens / seconds:,.0f}"
        rows.append((name, rate, f"{padding:.1%}", f"{statistics.median(shares):.2%}"))
    return rows


def table(rows: Sequence[Sequence[str]]) -> str:
    """Lay the rows out.

    Args:
        rows: of as many cells as there are columns.

    Returns:
        a table in Markdown.
    """
    cells = [COLUMNS, ["---", "---:", "---:", "---:"], *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--vocabulary", type=int, default=8000, help="entries")
    parser.add_argument("--tokens", type=int, default=4096, help="of a batch")
    parser.add_argument("--steps", type=int, default=100, help="that wait")
    parser.add_argument("--rounds", type=int, default=3, help="medians are shown")
    return parser.parse_args()


def main() -> None:
    """Measure, and print the table."""
    rows = measure(_options())
    files = [Path(word).name if Path(word).exists() else word for word in sys.argv[1:]]
    print(f"{table(rows)}\n\n{machine(PACKAGES)}")
    print(f"`{shlex.join(['python', 'benchmarks/pipeline.py', *files])}`")


if __name__ == "__main__":
    main()
