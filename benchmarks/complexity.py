"""Measures Table 1 of "Attention Is All You Need": self-attention, recurrence and convolution by length.

python benchmarks/complexity.py

One layer of each kind, of equal width, reads the same sequences in a compiled `tf.function` in float32:
forward, and forward and backward to the gradients of input and weights. The cases take turns, and the
table shows medians. The growth is the exponent of the length between the two longest lengths: 1 is
linear, 2 quadratic. It tends to the exponent of the formula where the length exceeds the width.
"""

import argparse
import math
import os
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf
from layer_kinds import KINDS, NUM_HEADS, Kind
from machine import machine

LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
BATCH_SIZE = 4
PACKAGES = ("keras", "tensorflow")
PASSES = ("forward", "forward and backward")

Milliseconds = dict[tuple[str, str, int], float]


def growth(shorter: int, longer: int, before: float, after: float) -> float:
    """Fit the exponent of the length between two measurements.

    Args:
        shorter: a length.
        longer: another one.
        before: what the shorter one took.
        after: what the longer one took.

    Returns:
        the slope in logarithms.
    """
    return math.log(after / before) / math.log(longer / shorter)


def compiled(kind: Kind, name: str, length: int, width: int) -> Callable[[], None]:
    """Make a call of a compiled pass; it is traced and has run once.

    Args:
        kind: of the layer.
        name: of the pass.
        length: of the sequences.
        width: of the layer.

    Returns:
        a function that returns when the pass is done.
    """
    layer = kind.build(width)
    x = tf.random.stateless_normal((BATCH_SIZE, length, width), seed=(0, length))

    def forward() -> tf.Tensor:
        return layer(x, x) if kind.name == "self-attention" else layer(x)

    def forward_and_backward() -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_mean(tf.square(forward()))
        sources = [x, *(variable.value for variable in layer.trainable_variables)]
        return [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, sources)]

    forward()  # makes the weights
    run = tf.function(forward if name == "forward" else forward_and_backward)

    def call() -> None:
        # Copied to the host, so that the device has finished.
        tf.nest.map_structure(lambda result: result.numpy(), run())

    call()
    return call


def measure(lengths: Sequence[int], width: int, repeats: int) -> Milliseconds:
    """Time all cases, each once in every round.

    Args:
        lengths: of the sequences.
        width: of the layers.
        repeats: rounds.

    Returns:
        median milliseconds by pass, kind and length.
    """
    cases = [(name, kind, length) for name in PASSES for kind in KINDS for length in lengths]
    calls = {(name, kind.name, length): compiled(kind, name, length, width) for name, kind, length in cases}
    times: dict[tuple[str, str, int], list[float]] = {case: [] for case in calls}
    for round_number in range(1, repeats + 1):
        print(f"round {round_number} of {repeats}", file=sys.stderr)
        for case, call in calls.items():
            start = time.perf_counter()
            call()
            times[case].append(1000 * (time.perf_counter() - start))
    return {case: statistics.median(values) for case, values in times.items()}


def time_table(times: Milliseconds, name: str, lengths: Sequence[int]) -> list[str]:
    """Make the table of one pass.

    Args:
        times: what was measured.
        name: of the pass.
        lengths: the columns.

    Returns:
        the lines of a Markdown table.
    """
    heads = [f"{name}, ms", *(f"n = {length}" for length in lengths), "growth"]
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(lengths) + 1)}"]
    for kind in KINDS:
        values = [times[name, kind.name, length] for length in lengths]
        exponent = growth(lengths[-2], lengths[-1], values[-2], values[-1])
        cells = [kind.name, *(f"{value:.2f}" for value in values), f"n^{exponent:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def formula_table(lengths: Sequence[int], width: int) -> list[str]:
    """Make the table of what is known without measuring.

    Args:
        lengths: the last two are counted and compared.
        width: of the layers.

    Returns:
        the lines of a Markdown table.
    """
    shorter, longer = lengths[-2:]
    lines = [
        f"| layer | multiply-adds | at n = {longer} | growth | sequential operations | maximal path length |",
        "|---|---|---:|---:|---|---|",
    ]
    for kind in KINDS:
        before, after = kind.multiply_adds(shorter, width), kind.multiply_adds(longer, width)
        exponent = growth(shorter, longer, before, after)
        lines.append(
            f"| {kind.name} | {kind.formula} | {after:,} | n^{exponent:.2f} "
            f"| {kind.sequential_operations} | {kind.path_length} |"
        )
    return lines


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="of the sequences")
    parser.add_argument("--width", type=int, default=128, help="of all layers")
    parser.add_argument("--repeats", type=int, default=11, help="rounds; the table shows medians")
    parser.add_argument("--small", action="store_true", help="lengths 4 and 8, width 8, 2 rounds: a trial")
    options = parser.parse_args()
    if options.small:
        options.lengths, options.width, options.repeats = (4, 8), 8, 2
    options.lengths = sorted(set(options.lengths))
    if len(options.lengths) < 2 or options.lengths[0] < 1:
        parser.error(f"--lengths must be at least two numbers above zero. Received: {options.lengths}.")
    if options.width < NUM_HEADS or options.width % NUM_HEADS:
        parser.error(f"--width must be a multiple of {NUM_HEADS}. Received: {options.width}.")
    if options.repeats < 1:
        parser.error(f"--repeats must be above zero. Received: {options.repeats}.")
    return options


def main() -> None:
    """Measure, and print the tables."""
    options = _options()
    keras.utils.set_random_seed(0)
    tf.get_logger().setLevel("ERROR")  # each case is traced once, on purpose
    times = measure(options.lengths, options.width, options.repeats)
    for name in PASSES:
        print("\n".join(time_table(times, name, options.lengths)), end="\n\n")
    print("\n".join(formula_table(options.lengths, options.width)))
    print(f"\nWidth d = {options.width}, batch {BATCH_SIZE}, float32, medians of {options.repeats} rounds.")
    devices = ", ".join(device.device_type for device in tf.config.list_logical_devices())
    print(f"{machine(PACKAGES)}, on {devices}")
    print(f"`{shlex.join(['python', 'benchmarks/complexity.py', *sys.argv[1:]])}`")


if __name__ == "__main__":
    main()
