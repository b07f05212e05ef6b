"""Measures time to the first step and peak memory of a run on millions of pairs.

python -m benchmarks.data.large_corpus SOURCE TARGET DIRECTORY --pairs 10000000 --shards 8

SOURCE and TARGET have a sentence on each line, plain or `.gz`. They are repeated and numbered to reach the
number of pairs, in shards in DIRECTORY, which the next call uses again. Two processes each end with the first
step: the first writes the cache of token ids, the second reads it. Memory is the largest resident set, pages
of mapped files included.
"""

import argparse
import gzip
import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.common import conditions, environment, table

HEADS = ("pairs", "start", "seconds to the first step", "of them tokenizing", "peak memory, GB")
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


def write_shards(text: Path, directory: Path, num_pairs: int, num_shards: int) -> list[str]:
    """Repeat and number the lines of a text in shards, unless they exist."""
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
    return [str(path) for path in paths]


def main() -> None:
    """Start a run without and with a cache, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--shards", type=int, default=8)
    options = parser.parse_args()
    texts, cache = options.directory / "texts", options.directory / "token_ids"
    shutil.rmtree(cache, ignore_errors=True)
    config: dict[str, object] = {
        "run_directory": str(options.directory / "runs"),
        "cache_directory": str(cache),
    }
    for side in ("source", "target"):
        shards = write_shards(getattr(options, side), texts, options.pairs, options.shards)
        config[side] = shards[0] if len(shards) == 1 else shards
    rows = []
    for start in ("without a cache", "with its cache"):
        command = [sys.executable, "-c", WORKER, json.dumps(config)]
        worker = subprocess.run(command, env=environment(), check=True, stdout=subprocess.PIPE)
        result = json.loads(worker.stdout.splitlines()[-1])
        tokenizing = f"{result['token ids']:.0f}" if "token ids" in result else "none"
        memory = f"{result['kilobytes'] / 1e6:.2f}"
        rows.append([f"{options.pairs:,}", start, f"{result['first_step']:.0f}", tokenizing, memory])
    print(f"{table(HEADS, rows)}\n\n{conditions('tensorflow', 'keras')}")


if __name__ == "__main__":
    main()
