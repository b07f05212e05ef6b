"""Measures what a shortlist gains and loses: exports of one run with and without one, side by side.

python benchmarks/shortlist.py runs/en_de train.en.gz train.de.gz test.en.gz test.de.gz --tokenize none

A table is made of the training pairs for each size, and an export with the search of the run. Rounds
alternate between the exports: some sources one at a time, then all in batches of 32; medians count. Outputs
are compared with those of the export without a shortlist.
"""

import argparse
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path

from machine import machine

import keras_transformer as kt

PACKAGES = ("keras", "tensorflow", "sacrebleu")


def milliseconds(export: kt.export.ServedModel, texts: list[str], batch_size: int) -> float:
    """Time a pass over texts.

    Args:
        export: that is asked.
        texts: the sources.
        batch_size: how many together.

    Returns:
        milliseconds for a source.
    """
    start = time.perf_counter()
    export.translate(texts, batch_size=batch_size)
    return (time.perf_counter() - start) / len(texts) * 1e3


def main() -> None:
    """Write the exports, ask them, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="directory of a run")
    for name in ("train_source", "train_target", "source", "target"):
        parser.add_argument(name, type=Path, help="a text on each line")
    parser.add_argument("--sizes", type=int, nargs="+", default=[25, 50, 100, 200])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alone", type=int, default=100, help="sources that are asked one at a time")
    parser.add_argument("--tokenize", default="13a", help="of BLEU")
    options = parser.parse_args()
    translator = kt.Translator.load(options.run)
    pairs = list(zip(*map(kt.data.read_lines, (options.train_source, options.train_target)), strict=True))
    texts, references = map(kt.data.read_lines, (options.source, options.target))
    tokenizers = translator.source_tokenizer, translator.target_tokenizer
    exports = {}
    with tempfile.TemporaryDirectory() as directory:
        for size in [None, *options.sizes]:
            start = time.perf_counter()
            translator.shortlist = size and kt.decoding.lexical_shortlist(pairs, *tokenizers, size=size)
            if size:
                print(f"table of {size}: {time.perf_counter() - start:.1f} s", file=sys.stderr)
            path = kt.export.export_saved_model(translator, Path(directory, str(size)), texts)
            exports[size] = kt.export.ServedModel(path)
    outputs = {size: export.translate(texts, batch_size=32) for size, export in exports.items()}
    times: dict[tuple[int | None, int], list[float]] = {}
    for _ in range(options.rounds):
        for size, export in exports.items():
            for batch_size, part in ((1, texts[: options.alone]), (32, texts)):
                times.setdefault((size, batch_size), []).append(milliseconds(export, part, batch_size))
    print("| shortlist | ms a source, alone | ms a source, 32 together | BLEU | outputs as without |")
    print("|---|---:|---:|---:|---:|")
    for size, found in outputs.items():
        alone, together = (statistics.median(times[size, batch_size]) for batch_size in (1, 32))
        scores = kt.evaluation.evaluate(found, references, ["bleu"], tokenize=options.tokenize).scores
        same = sum(map(str.__eq__, found, outputs[None])) / len(found)
        print(
            f"| {size or 'none'} | {alone:.1f} | {together:.1f} | {scores['bleu'].value:.2f} | {same:.1%} |"
        )
    print(f"\n{machine(PACKAGES)}\n`{shlex.join(['python', 'benchmarks/shortlist.py', *sys.argv[1:]])}`")


if __name__ == "__main__":
    main()
