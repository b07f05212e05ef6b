"""Checks the package on an accelerator, with JAX and with torch; writes a line of JSON for each check.

    python -m benchmarks.accelerator.run --directory build/accelerator
    python -m benchmarks.accelerator.run --directory build/accelerator --dry-run

It needs JAX, torch, Keras and pydantic; it needs neither TensorFlow nor a network.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.accelerator.page import table

ROOT = Path(__file__).parents[2]
# JAX's part of the time, since JAX compiles.
SHARES = {"jax": 0.6, "torch": 0.4}
MOST_STARTS = 5
# On a shared machine checks are slow; they still all run.
DRY_SECONDS = 3600


def run_backend(backend: str, options: argparse.Namespace, seconds: float) -> None:
    """Run the checks of a backend in a process, and in another one if that dies."""
    results, end = options.directory / "results.jsonl", time.monotonic() + seconds
    for _ in range(MOST_STARTS):
        left = end - time.monotonic()
        if left <= 0:
            return
        command = [sys.executable, "-m", "benchmarks.accelerator.worker", backend, str(results)]
        command += [
            "--seconds",
            str(left),
            "--only",
            options.only,
            *(["--dry-run"] if options.dry_run else []),
        ]
        log = options.directory / f"{backend}.log"
        began: dict[str, Any] = {}
        with log.open("ab") as errors:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment(options.dry_run),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            assert process.stdout is not None  # noqa: S101
            try:
                output, _ = process.communicate(timeout=left + 30)
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
        names = [json.loads(line) for line in output.splitlines() if line.startswith('{"check"')]
        if process.returncode == 0:
            return
        # It crashed in the check that it named last; that is a result too.
        began = names[-1] if names else {"check": "start", "passes_if": "the package is imported"}
        died = {**began, "backend": backend, "device": "", "dry_run": options.dry_run, "passed": False}
        tail = log.read_text(encoding="utf-8", errors="replace")[-1500:]
        write(results, {**died, "error": f"The process ended with {process.returncode}.", "trace": tail})
        if not names:
            return


def environment(dry: bool) -> dict[str, str]:
    """Return the environment of a worker."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    # Compiled code runs once in a dry run, so it may be slow.
    quick = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    flags = f"{os.environ.get('XLA_FLAGS', '')} {quick}" if dry else os.environ.get("XLA_FLAGS", "")
    # Waiting threads of torch would occupy the few cores.
    threads = {"OMP_NUM_THREADS": "1"} if dry else {}
    return {**os.environ, **threads, "PYTHONPATH": path, "XLA_FLAGS": flags.strip()}


def write(path: Path, line: dict[str, Any]) -> None:
    """Append a line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def main() -> None:
    """Run all checks, print the table, and end with 1 if one failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accelerator.run", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--directory", type=Path, required=True, help="for results.jsonl and the logs")
    parser.add_argument("--seconds", type=float, default=470, help="time in all, but for a dry run")
    parser.add_argument(
        "--backend", choices=tuple(SHARES), action="append", help="one alone; both by default"
    )
    parser.add_argument("--only", default="", help="regular expression of the names of the checks to run")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes, for a processor")
    options = parser.parse_args()
    options.directory = options.directory.resolve()
    options.directory.mkdir(parents=True, exist_ok=True)
    results = options.directory / "results.jsonl"
    results.unlink(missing_ok=True)
    backends = options.backend or tuple(SHARES)
    end = time.monotonic() + (DRY_SECONDS if options.dry_run else options.seconds)
    for number, backend in enumerate(backends):
        left = end - time.monotonic()
        # The second process gets the time that the first leaves.
        is_last = number == len(backends) - 1
        run_backend(backend, options, left if is_last else left * SHARES[backend])
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    print(table(lines))
    sys.exit(any(line["passed"] is False for line in lines))


if __name__ == "__main__":
    main()
