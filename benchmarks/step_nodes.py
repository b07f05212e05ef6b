"""Counts what TensorFlow executes in a step of decoding, and times the products alone.

python benchmarks/step_nodes.py small --search greedy

The graph of a search is saved, loaded by a session of one thread, and traced: each node that runs is an entry
of the trace, so that nodes that the optimizer removed or that loops add (`Merge`, `Switch`) are told apart
from the model's. Microseconds of a trace are longer than those of a plain run. The bare loop has nothing but
the matrix products of the step: what the arithmetic costs, with all weights in the caches.
"""

import argparse
import os
import re
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import tensorflow as tf
from decoding_cells import SHAPES, Cell, random_sources
from decoding_prepare import random_model, save_ids_model, signature_name
from decoding_systems import BareLoop
from machine import machine

PACKAGES = ("keras", "tensorflow")
NUM_TOKENS = 32


def trace(directory: str, cell: Cell, sources: list[list[int]]) -> tuple[Counter[str], Counter[str]]:
    """Run the graph in a session of one thread.

    Args:
        directory: of the graph.
        cell: whose signature is run.
        sources: of one length.

    Returns:
        how often each operation ran in a step, and its microseconds.
    """
    threads = {"inter_op_parallelism_threads": 1, "intra_op_parallelism_threads": 1}
    with tf.Graph().as_default(), tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(**threads)) as session:
        meta_graph = tf.compat.v1.saved_model.load(session, ["serve"], directory)
        signature = meta_graph.signature_def[signature_name(cell, xla=False)]
        output, feed = signature.outputs["token_ids"].name, {signature.inputs["token_ids"].name: sources}
        for _ in range(3):
            session.run(output, feed)
        options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
        metadata = tf.compat.v1.RunMetadata()
        session.run(output, feed, options, metadata)
    counts: Counter[str] = Counter()
    microseconds: Counter[str] = Counter()
    stats = [each for device in metadata.step_stats.dev_stats for each in device.node_stats]
    runs = Counter(each.node_name for each in stats)
    for each in stats:
        if runs[each.node_name] < NUM_TOKENS:
            continue  # before or after the loop
        found = re.search(r"= (\w+)\(", each.timeline_label)
        operation = found[1] if found else each.node_name.rpartition("/")[2]
        counts[operation] += 1
        microseconds[operation] += each.op_end_rel_micros - each.op_start_rel_micros
    return counts, microseconds


def bare_loop(cell: Cell) -> float:
    """Time a loop of the matrix products alone.

    Args:
        cell: whose sizes and hypotheses are used.

    Returns:
        microseconds of a step.
    """
    BareLoop.threads = 1
    loop, seconds = BareLoop(Path(), cell.shape), []
    rows = loop.inputs(random_sources(cell, 0), cell)
    for _ in range(40):
        start = time.perf_counter()
        loop.answer(rows, cell)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[5:]) / NUM_TOKENS * 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--search", default="greedy", choices=["greedy", "beam"])
    parser.add_argument("--most", type=int, default=16, help="operations of the table")
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    cell = Cell(options.shape, 1, options.search, NUM_TOKENS)
    model = random_model(options.shape)
    with tempfile.TemporaryDirectory() as directory:
        save_ids_model(model, [cell], Path(directory))
        counts, microseconds = trace(directory, cell, random_sources(cell, 0))
    total, time_of_all = (sum(each.values()) / NUM_TOKENS for each in (counts, microseconds))
    print("| operation | in a step | microseconds of the trace |")
    print("|---|---:|---:|")
    for operation, count in counts.most_common(options.most):
        print(f"| {operation} | {count / NUM_TOKENS:.0f} | {microseconds[operation] / NUM_TOKENS:.0f} |")
    print(f"| all {len(counts)} | {total:.0f} | {time_of_all:.0f} |")
    print(f"| bare loop, not traced | | {bare_loop(cell):.0f} |")
    print(f"\n{machine(PACKAGES)}")


if __name__ == "__main__":
    main()
