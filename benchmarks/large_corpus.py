"""Measures how long a run takes to its first step on pairs that are more than memory holds, and its memory.

python benchmarks/large_corpus.py SOURCE TARGET DIRECTORY --pairs 10000000 --shards 8

SOURCE and TARGET are texts with a sentence on each line, plain or `.gz`; they are repeated and numbered to so
many pairs, in shards under DIRECTORY, which stay there for the next call. Each start is a process of its own,
which ends with its first step: one that makes the cache of token ids, and one that finds it. Memory is the
largest resident set, pages of mapped files included. `--package` names the checkout of an earlier version.
"""

import argparse
import gzip
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from machine import machine

PACKAGES = ("tensorflow", "keras")
COLUMNS = ("pairs", "start", "seconds to the first step", "of them tokenizing", "peak memory, GB")

# Its text is handed to a new interpreter, which may have an earlier version of the package.
WORKER = """
import contextlib, json, resource, sys, time
start = time.monotonic()
import keras
from keras_transformer.runs import Run, RunConfig

class Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        raise KeyboardInterrupt

seconds = {}

@contextlib.contextmanager
def timed(length, label):
    begin = time.monotonic()
    yield lambda number: None
    seconds[label] = time.monotonic() - begin

with contextlib.suppress(KeyboardInterrupt):
    options = json.loads(sys.argv[1])
    Run(RunConfig.default(**options)).train(callbacks=[Stop()], verbose=0, progress=timed)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"first_step": time.monotonic() - start, "kilobytes": peak, **seconds}))
"""


def write_shards(text: Path, directory: Path, num_pairs: int, num_shards: int) -> list[Path]:
    """Repeat and number the lines of a text.

    Args:
        text: the file.
        directory: of the shards.
        num_pairs: lines in all.
        num_shards: files.

    Returns:
        the shards, which are not written again if they are there.
    """
    with gzip.open(text, "rt", encoding="utf-8") if text.suffix == ".gz" else text.open() as file:
        lines = [line.rstrip("\n") for line in file]
    numbered = (f"{line} {number}\n" for number, line in enumerate(itertools.cycle(lines)))
    name = text.name.removesuffix(".gz")
    paths = [directory / f"{num_pairs}-{part:02}-{num_shards}.{name}.gz" for part in range(num_shards)]
    if not all(path.exists() for path in paths):
        directory.mkdir(parents=True, exist_ok=True)
        for part, path in enumerate(paths):
            size = num_pairs * (part + 1) // num_shards - num_pairs * part // num_shards
            with gzip.open(path, "wt", compresslevel=1, encoding="utf-8") as file:
                file.writelines(itertools.islice(numbered, size))
    return paths


def measure(options: argparse.Namespace) -> list[tuple[str, ...]]:
    """Start runs without and with a cache.

    Args:
        options: of the command line.

    Returns:
        the rows of the table.
    """
    sides = {"source": options.source, "target": options.target}
    shards = {
        side: write_shards(text, options.directory / "texts", options.pairs, options.shards)
        for side, text in sides.items()
    }
    files = {side: [str(path) for path in paths] for side, paths in shards.items()}
    config: dict[str, object] = {
        side: paths[0] if len(paths) == 1 else paths for side, paths in files.items()
    }
    config |= {"run_directory": str(options.directory / "runs")}
    if options.package is None:
        config |= {"cache_directory": str(options.directory / "token_ids")}
        shutil.rmtree(options.directory / "token_ids", ignore_errors=True)
    rows = []
    for start in ("without a cache", "with its cache") if options.package is None else ("in memory",):
        place = Path(__file__).resolve().parents[1] if options.package is None else options.package
        worker = subprocess.run(
            [sys.executable, "-c", WORKER, json.dumps(config)],
            env={**os.environ, "PYTHONPATH": str(place)},
            check=True,
            stdout=subprocess.PIPE,
        )
        result = json.loads(worker.stdout.splitlines()[-1])
        tokenizing = f"{result['token ids']:.0f}" if "token ids" in result else "none"
        memory = f"{result['kilobytes'] / 1e6:.2f}"
        rows.append((f"{options.pairs:,}", start, f"{result['first_step']:.0f}", tokenizing, memory))
    return rows


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--package", type=Path, help="checkout of a version without a cache")
    return parser.parse_args()


if __name__ == "__main__":
    rows = measure(_options())
    print(machine(PACKAGES))
    print(f"`python {shlex.join(sys.argv)}`\n")
    for cells in (COLUMNS, ("---",) * len(COLUMNS), *rows):
        print(f"| {' | '.join(cells)} |")
