"""Compiles a large encoder-decoder for a virtual mesh of 2 x 4 devices, and counts memory and collectives.

python -m benchmarks.training.model_parallel

No weight is allocated: the step of `fit` under `kt.training.distributed("model_parallel", model_shards=4)` is
compiled from shapes, with Adam, for eight virtual devices of a processor. The first table has the bytes of
one device. The second has the collectives of the compiled module: the number of each kind, the devices that
it connects, and the bytes of its results on one device. The default is a model of 3 billion parameters; it
takes minutes and 2 GB.
"""

import argparse
import json
import math
import os
import re
import time
from collections import Counter
from typing import Any

from benchmarks.common import conditions, table

MESH = (2, 4)
_COLLECTIVE = re.compile(
    r" = (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)\((.*)"
)
# XLA's ways to write groups of devices: chosen axes of a mesh, a number of groups of a size, or each group.
_OF_MESH = re.compile(r"replica_groups=mesh\[(.*?)\].*? \{(.*?)\}")
_OF_SIZE = re.compile(r"replica_groups=\[\d+,(\d+)\]<=")
_EACH = re.compile(r"replica_groups=\{\{(.*?)\}")


def collectives(text: str) -> tuple[Counter[tuple[str, int]], Counter[tuple[str, int]]]:
    """Return number and bytes of each collective of a compiled module, by kind and devices of a group."""
    numbers: Counter[tuple[str, int]] = Counter()
    sizes: Counter[tuple[str, int]] = Counter()
    for results, kind, attributes in _COLLECTIVE.findall(text):
        key = kind, 2 if kind == "collective-permute" else _group_size(attributes)
        numbers[key] += 1
        for bits, shape in re.findall(r"[a-z]+(\d+)\[([\d,]*)\]", results):
            sizes[key] += int(bits) // 8 * math.prod(int(size) for size in shape.split(",") if size)
    return numbers, sizes


def _group_size(attributes: str) -> int:
    if of_mesh := _OF_MESH.search(attributes):
        axes = dict(re.findall(r"'(\w+)'=(\d+)", of_mesh[1]))
        return math.prod(int(axes[name]) for name in re.findall(r"'(\w+)'", of_mesh[2]))
    if of_size := _OF_SIZE.search(attributes):
        return int(of_size[1])
    if each := _EACH.search(attributes):
        return len(each[1].split(","))
    raise ValueError(f"Groups of devices must be known. Received: {attributes[:200]}.")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Compile the step, and return bytes and collectives."""
    # XLA's code for a processor is not needed here, and takes longest to generate.
    flags = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={math.prod(MESH)}"
    os.environ["KERAS_BACKEND"] = "jax"
    import keras_transformer as kt
    from benchmarks.training.compiled_step import compile_step, make_batch

    sizes = {
        name: getattr(options, name)
        for name in ("num_layers", "hidden_dim", "num_heads", "intermediate_dim", "dropout")
    }
    start = time.monotonic()
    with kt.training.distributed("model_parallel", model_shards=MESH[1]):
        with kt.models.shapes_only():
            vocabulary = options.vocabulary_size
            model = kt.Transformer(
                vocabulary, vocabulary, share_embeddings=True, dtype=options.precision, **sizes
            )
        kt.training.compile_model(model, 1e-3)
        lengths = {"source_length": options.source_length, "target_length": options.target_length}
        plan = kt.training.memory_plan(model, options.batch_size, **lengths)
        compiled = compile_step(model, make_batch(model, options.batch_size, *lengths.values()))
    memory = compiled.memory_analysis()
    numbers, bytes_of = collectives(compiled.as_text())
    return {
        "parameters": plan.total.num_weights,
        "state": plan.total.weights + plan.total.optimizer,
        "plan": plan.peak,
        "arguments": memory.argument_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "seconds": time.monotonic() - start,
        "collectives": [[*key, numbers[key], bytes_of[key]] for key in sorted(numbers)],
    }


def main() -> None:
    """Compile the step that the options describe, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in (
        ("num_layers", 16),
        ("hidden_dim", 2560),
        ("num_heads", 32),
        ("intermediate_dim", 10240),
        ("vocabulary_size", 64_000),
        ("batch_size", 16),
        ("source_length", 128),
        ("target_length", 128),
    ):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    options = parser.parse_args()
    found = measure(options)
    if options.json:
        print(json.dumps(found))
        return
    devices = math.prod(MESH)
    rows = [
        ["weights and Adam's state", found["state"], found["state"] / MESH[1], found["arguments"]],
        ["all else of a step", "", "", found["temporaries"]],
    ]
    print(f"{found['parameters']:,} parameters, {devices} devices; compiled in {found['seconds']:.0f} s.\n")
    heads = ["", "GB of the whole", f"GB / {MESH[1]}", "GB of a device, by XLA"]
    print(table(heads, [[row[0], *(_scaled(each, 1e9) for each in row[1:])] for row in rows]))
    print()
    rows = [
        [f"{kind} of {group} devices", number, _scaled(size, 1e6)]
        for kind, group, number, size in found["collectives"]
    ]
    print(table(["collective", "number", "MB of a device"], rows))
    print(f"\n{conditions('keras', 'jax')}")


def _scaled(number: Any, scale: float) -> str:
    return f"{number / scale:,.2f}" if number else ""


if __name__ == "__main__":
    main()
