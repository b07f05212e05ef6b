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
from decoding_prepare import random_model, search
from machine import machine

import keras_transformer as kt

PACKAGES = ("keras", "tensorflow")
NUM_TOKENS = 32


def save(model: kt.Transformer, cell: Cell, directory: str) -> None:
    """Save the graph that answers with token ids.

    Args:
        model: ours.
        cell: whose search and length are used.
        directory: where.
    """

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "ids")], autograph=False)
    def serve(token_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"output": kt.decoding.generate(model, token_ids, search(cell.search), cell.length).token_ids}

    module = tf.Module()
    module.serve, module.model_variables = serve, [weight.value for weight in model.weights]
    tf.saved_model.save(module, directory, signatures=serve)


def trace(directory: str, sources: list[list[int]]) -> tuple[Counter[str], Counter[str]]:
    """Run the graph in a session of one thread.

    Args:
        directory: of the graph.
        sources: of one length.

    Returns:
        how often each operation ran in a step, and its microseconds.
    """
    threads = {"inter_op_parallelism_threads": 1, "intra_op_parallelism_threads": 1}
    with tf.Graph().as_default(), tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(**threads)) as session:
        meta_graph = tf.compat.v1.saved_model.load(session, ["serve"], directory)
        signature = meta_graph.signature_def["serving_default"]
        output, feed = signature.outputs["output"].name, {signature.inputs["ids"].name: sources}
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


def bare_loop(model: kt.Transformer, num_rows: int) -> float:
    """Time a loop of the matrix products alone.

    Args:
        model: whose sizes are used.
        num_rows: hypotheses.

    Returns:
        microseconds of a step.
    """
    config = model.config
    width, inner = config.hidden_dim, config.intermediate_dim
    sizes = [(width, 3 * width), *[(width, width)] * 3, (width, inner), (inner, width)]
    sizes = [*sizes * len(model.decoder.layers), (width, config.target_vocabulary_size)]
    weights = [tf.Variable(tf.random.normal(size, stddev=0.05)) for size in sizes]

    @tf.function(autograph=False)
    def loop(rows: tf.Tensor) -> tf.Tensor:
        matrices = [tf.identity(weight) for weight in weights]

        def body(count: tf.Tensor, rows: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, ...]:
            for matrix in matrices[:-1]:
                rows = tf.matmul(rows[:, : matrix.shape[0]], matrix)
            return count + 1, rows, total + tf.reduce_max(tf.matmul(rows, matrices[-1]))

        return tf.while_loop(lambda count, *_: count < NUM_TOKENS, body, (0, rows, 0.0))[2]

    rows, seconds = tf.random.normal((num_rows, width)), []
    for _ in range(40):
        start = time.perf_counter()
        loop(rows)
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
        save(model, cell, str(Path(directory, "graph")))
        counts, microseconds = trace(str(Path(directory, "graph")), random_sources(cell, 0))
    total, time_of_all = (sum(each.values()) / NUM_TOKENS for each in (counts, microseconds))
    print("| operation | in a step | microseconds of the trace |")
    print("|---|---:|---:|")
    for operation, count in counts.most_common(options.most):
        print(f"| {operation} | {count / NUM_TOKENS:.0f} | {microseconds[operation] / NUM_TOKENS:.0f} |")
    print(f"| all {len(counts)} | {total:.0f} | {time_of_all:.0f} |")
    rows = 1 if options.search == "greedy" else 4
    print(f"| bare loop, not traced | | {bare_loop(model, rows):.0f} |")
    print(f"\n{machine(PACKAGES)}")


if __name__ == "__main__":
    main()
