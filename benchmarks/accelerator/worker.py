"""Runs the checks of one backend, one after the other; `run.py` starts it."""

import argparse
import json
import os
import re
import time
from pathlib import Path


def main() -> None:
    """Run the requested checks, and write a line for each."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accelerator.worker", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("backend", choices=("jax", "torch"))
    parser.add_argument("results", type=Path, help="file of JSON lines, which are added to it")
    parser.add_argument("--seconds", type=float, required=True, help="time in all")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes, for a processor")
    parser.add_argument("--only", default="", help="regular expression of the names of the checks to run")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    os.environ["KERAS_BACKEND"] = options.backend
    # Else JAX reserves three quarters of the memory, and the processes that it starts find none.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # needed by torch's deterministic products

    import keras

    from benchmarks.accelerator import correctness, training  # noqa: F401 (they add their checks)
    from benchmarks.accelerator.checks import CHECKS, Setting, read_lines, run_check, write_line
    from benchmarks.accelerator.engines import make_engine

    setting = Setting(make_engine(options.backend), options.results.parent, options.dry_run)
    # A crashed process is started again, and continues after the check that crashed.
    done = {line["check"] for line in read_lines(options.results) if line["backend"] == options.backend}
    for each in CHECKS:
        if options.backend in each.backends and each.name not in done and re.search(options.only, each.name):
            print(json.dumps({"check": each.name, "passes_if": each.passes_if}), flush=True)
            # A check gives the same result alone and after the others.
            keras.utils.set_random_seed(0)
            write_line(options.results, run_check(each, setting, end - time.monotonic()))


if __name__ == "__main__":
    main()
