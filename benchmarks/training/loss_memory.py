"""Measures the memory of a loss over a large vocabulary and its gradient, compared with the plain formulas.

python -m benchmarks.training.loss_memory

Each formula runs in a separate process on 2,048 tokens and 32,000 words, in a graph. The table shows the peak
memory of the process, minus its memory with only the logits and the graph.
"""

import argparse
import subprocess
from collections.abc import Callable
from typing import Any

from benchmarks.common import conditions, environment, memory_megabytes, peak_megabytes, table, worker_command

NUM_TOKENS, VOCABULARY, LABEL_SMOOTHING = 2048, 32_000, 0.1
FORMULAS = ("ours", "plain", "keras")


def loss_of(formula: str) -> Callable[[Any, Any], Any]:
    """Return a smoothed cross-entropy of labels and logits."""
    import keras
    from keras import ops

    import keras_transformer as kt

    def plain(labels: Any, logits: Any) -> Any:
        smoothed = ops.one_hot(labels, VOCABULARY) * (1 - LABEL_SMOOTHING) + LABEL_SMOOTHING / VOCABULARY
        return -ops.sum(smoothed * ops.log_softmax(logits), axis=-1)

    def of_keras(labels: Any, logits: Any) -> Any:
        options = {"from_logits": True, "label_smoothing": LABEL_SMOOTHING}
        return keras.losses.categorical_crossentropy(ops.one_hot(labels, VOCABULARY), logits, **options)

    ours = kt.training.MaskedCrossentropy(LABEL_SMOOTHING).call
    return {"ours": ours, "plain": plain, "keras": of_keras}[formula]


def measure(formula: str) -> float:
    """Compute a loss and its gradient once; return the megabytes above the logits."""
    import tensorflow as tf

    loss_of_each = loss_of(formula)
    labels = tf.random.stateless_uniform((1, NUM_TOKENS), (0, 0), 0, VOCABULARY, tf.int32)
    logits = tf.fill((1, NUM_TOKENS, VOCABULARY), 0.5)

    @tf.function
    def loss_and_gradient(labels: Any, logits: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(logits)
            loss = tf.reduce_mean(loss_of_each(labels, logits))
        return loss, tape.gradient(loss, logits)[0, 0, 0]

    graph = loss_and_gradient.get_concrete_function(labels, logits)
    before = memory_megabytes()
    for value in graph(labels, logits):
        value.numpy()
    return peak_megabytes() - before


def main() -> None:
    """Measure the formula of the command line, or start a process for each and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("formula", nargs="?", choices=FORMULAS, help="only this one, in this process")
    formula = parser.parse_args().formula
    if formula is not None:
        print(measure(formula))
        return
    rows = []
    for formula in FORMULAS:
        command = worker_command("training.loss_memory", formula)
        result = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
        rows.append([formula, f"{float(result.stdout.splitlines()[-1]):,.0f}"])
    print(f"logits: {NUM_TOKENS * VOCABULARY * 4 / 2**20:,.0f} MB\n")
    print(table(["loss and gradient", "MB above the logits"], rows))
    print(f"\n{conditions('keras', 'tensorflow')}")


if __name__ == "__main__":
    main()
