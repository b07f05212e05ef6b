"""One system in a process of its own: requests come as lines of JSON, answers go back likewise.

python benchmarks/decoding_worker.py ours DIRECTORY small [SOURCES]

So no engine disturbs another one's threads, and memory is measured for each.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # the guide to serving advises it
os.environ["OMP_NUM_THREADS"] = "2"

from decoding_cells import Cell, random_sources
from decoding_kerashub import KERASHUB
from decoding_systems import SYSTEMS, THREADS
from worker_process import peak_megabytes, pin_to_cores


def batches(cell: Cell, seed: int, sources: list[Any], *, single: bool) -> list[list[Any]]:
    """Choose what a request asks.

    Args:
        cell: whose batch is used.
        seed: of random sources, or which source is the single one.
        sources: of a trained model in the order of their lengths, or none.
        single: whether one source is enough.

    Returns:
        a batch of random sources; or all sources in batches of like lengths, or a single one.
    """
    if not sources:
        return [random_sources(cell, seed)]
    if single:
        return [[sources[seed * 37 % len(sources)]]]
    return [sources[start : start + cell.batch] for start in range(0, len(sources), cell.batch)]


def answer(system: Any, request: dict[str, Any], sources: list[Any]) -> dict[str, Any]:
    """Answer one request.

    Args:
        system: of `SYSTEMS`.
        request: `cell`, `seed` and whether it is a `single` source.
        sources: of a trained model, or none.

    Returns:
        `seconds`, `tokens` and `peak`, megabytes.
    """
    cell = Cell(*request["cell"])
    seconds, tokens = 0.0, 0
    for batch in batches(cell, request["seed"], sources, single=request["single"]):
        inputs = system.inputs(batch, cell)
        start = time.perf_counter()
        tokens += system.answer(inputs, cell)
        seconds += time.perf_counter() - start
    return {"seconds": seconds, "tokens": tokens, "peak": peak_megabytes()}


def main() -> None:
    """Load the system, then answer until the pipe ends."""
    name, directory, shape, *rest = sys.argv[1:]
    # Libraries may print; their words go to the standard error.
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    pin_to_cores(THREADS)
    sources = (
        json.loads(Path(rest[0]).read_text(encoding="utf-8"))[name.startswith("ours-strings")] if rest else []
    )
    start = time.perf_counter()
    system = {**SYSTEMS, **KERASHUB}[name](Path(directory), shape)
    print(json.dumps({"load": time.perf_counter() - start, "peak": peak_megabytes()}), file=pipe, flush=True)
    for line in sys.stdin:
        try:
            reply = answer(system, json.loads(line), sources)
        except Exception as error:  # noqa: BLE001 - a system that cannot is a result, not the end
            reply = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        print(json.dumps(reply), file=pipe, flush=True)


if __name__ == "__main__":
    main()
