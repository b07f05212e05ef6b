"""Measures how long the command line takes for one text, compared with `import tensorflow`.

python -m benchmarks.start_up

Each process translates one text; `--exports` names directories that `export` wrote. On a shared machine,
processor seconds (user and system) vary less than clock seconds.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.common import ROOT, conditions, environment, in_turns, median, table, times

TEXT = "vendredi 3 mars 2023"
PROGRAM = "from keras_transformer_cli import main; main()"
REFERENCE = "import tensorflow"


def seconds(words: Sequence[str]) -> tuple[float, float]:
    """Run Python to its end; return processor seconds and clock seconds."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *words],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} must end with status 0. Received: {process.returncode}.")
    return used.ru_utime + used.ru_stime, time.perf_counter() - start


def commands(exports: Sequence[str]) -> dict[str, list[str]]:
    """Return the arguments of `python` for each command, by its name in the table."""
    verbs = [["translate", "--saved-model", path, TEXT] for path in exports] + [["train", "--help"]]
    named = {" ".join(words[:3]): ["-c", PROGRAM, *words] for words in verbs}
    return {REFERENCE: ["-c", REFERENCE], **named}


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ("dates", "cmudict", "multi30k_en_de")
    parser.add_argument("--exports", nargs="*", default=[str(ROOT / "saved_models" / name) for name in names])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    clock: dict[str, list[float]] = {}

    def ask(name: str, words: Sequence[str], _: int) -> float:
        used, passed = seconds(words)
        clock.setdefault(name, []).append(passed)
        return used

    wanted = commands([os.path.relpath(path) for path in options.exports])
    asks: dict[str, Callable[[int], float]] = {
        name: partial(ask, name, words) for name, words in wanted.items()
    }
    used = in_turns(asks, options.rounds, warm_ups=0, title="start-up")
    rows = [
        [f"`{name}`"]
        + [median(each[name], "{:.1f}") + times(each[name], each[REFERENCE]) for each in (used, clock)]
        for name in wanted
    ]
    print(table(["one process, seconds", "processor", "clock"], rows))
    print(conditions("tensorflow", "keras", note=f"medians of {options.rounds}"))


if __name__ == "__main__":
    main()
