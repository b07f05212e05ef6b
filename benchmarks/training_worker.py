"""One library in a process of its own: requests come as lines of JSON, times go back likewise.

python benchmarks/training_worker.py ours small
"""

import json
import os
import sys
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as `keras-transformer train` does; for all libraries
os.environ["OMP_NUM_THREADS"] = "2"

from training_shapes import SHAPES, random_batches
from training_systems import SYSTEMS
from worker_process import peak_megabytes, pin_to_cores


def answer(system: Any, shape: str, request: dict[str, int]) -> dict[str, float]:
    """Train for some steps.

    Args:
        system: of `SYSTEMS`.
        shape: its name.
        request: how many `steps`, and the `seed` of the batches.

    Returns:
        `seconds` of all steps, `loss` and `peak`, megabytes.
    """
    batches = random_batches(SHAPES[shape], request["steps"], request["seed"])
    start = time.perf_counter()
    loss = system.train(batches)
    return {"seconds": time.perf_counter() - start, "loss": loss, "peak": peak_megabytes()}


def main() -> None:
    """Make the model, then train until the pipe ends."""
    name, shape = sys.argv[1:]
    # Libraries may print; their words go to the standard error.
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    pin_to_cores(2)
    system = SYSTEMS[name](SHAPES[shape])
    print(json.dumps({"peak": peak_megabytes()}), file=pipe, flush=True)
    for line in sys.stdin:
        try:
            reply: dict[str, Any] = answer(system, shape, json.loads(line))
        except Exception as error:  # noqa: BLE001 - a system that cannot is a result, not the end
            reply = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        print(json.dumps(reply), file=pipe, flush=True)


if __name__ == "__main__":
    main()
