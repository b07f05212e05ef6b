"""Measures the memory of a loss over a large vocabulary and of its gradient, beside the plain formulas.

python benchmarks/loss_memory.py

Each formula runs in a process of its own, on 2,048 tokens and 32,000 words, in a graph. What is shown is the
most memory that the process held, less what it held with the logits and the graph alone.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf
from keras import ops
from machine import machine
from worker_process import ENVIRONMENT, memory_megabytes, peak_megabytes

import keras_transformer as kt

NUM_TOKENS, VOCABULARY, LABEL_SMOOTHING = 2048, 32_000, 0.1


def ours(labels: Any, logits: Any) -> Any:
    """Give this package's loss of each token."""
    return kt.training.MaskedCrossentropy(LABEL_SMOOTHING).call(labels, logits)


def plain(labels: Any, logits: Any) -> Any:
    """Give the formula as it is written: smoothed labels times the logarithm of the softmax."""
    smoothed = ops.one_hot(labels, VOCABULARY) * (1 - LABEL_SMOOTHING) + LABEL_SMOOTHING / VOCABULARY
    return -ops.sum(smoothed * ops.log_softmax(logits), axis=-1)


def of_keras(labels: Any, logits: Any) -> Any:
    """Give Keras's loss, whose smoothing wants one-hot labels."""
    one_hot = ops.one_hot(labels, VOCABULARY)
    return keras.losses.categorical_crossentropy(
        one_hot, logits, from_logits=True, label_smoothing=LABEL_SMOOTHING
    )


FORMULAS: dict[str, Callable[[Any, Any], Any]] = {"ours": ours, "plain": plain, "keras": of_keras}


def measure(name: str) -> float:
    """Compute a loss and its gradient once.

    Args:
        name: of the formula.

    Returns:
        megabytes above the logits.
    """
    labels = tf.random.stateless_uniform((1, NUM_TOKENS), (0, 0), 0, VOCABULARY, tf.int32)
    logits = tf.fill((1, NUM_TOKENS, VOCABULARY), 0.5)

    @tf.function
    def loss_and_gradient(labels: Any, logits: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(logits)
            loss = tf.reduce_mean(FORMULAS[name](labels, logits))
        return loss, tape.gradient(loss, logits)[0, 0, 0]

    graph = loss_and_gradient.get_concrete_function(labels, logits)
    before = memory_megabytes()
    for value in graph(labels, logits):
        value.numpy()
    return peak_megabytes() - before


def main() -> None:
    """Measure one formula, or start a process for each and print a table."""
    if len(sys.argv) > 1:
        print(measure(sys.argv[1]))
        return
    print(f"logits: {NUM_TOKENS * VOCABULARY * 4 / 2**20:,.0f} MB\n")
    print("| loss and gradient | MB above the logits |\n|---|---:|")
    for name in FORMULAS:
        words = [sys.executable, __file__, name]
        result = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=True)
        print(f"| {name} | {float(result.stdout.splitlines()[-1]):,.0f} |")
    print(f"\n{machine(('keras', 'tensorflow'))}\n`python benchmarks/loss_memory.py`")


if __name__ == "__main__":
    main()
