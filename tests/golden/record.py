"""Record the golden outputs that `test_golden.py` compares with.

    python tests/golden/record.py            # every part
    python tests/golden/record.py sampling   # one part
    python tests/golden/record.py saved files   # new saved models, and what they give

A part is a function that gives named arrays, kept in `fixtures/<part>.npz`:

- `logits`, `half_logits`: each model class and option, in float32 and mixed bfloat16; the weights' order too
- `decoding`: each search, constraint and kind of model, on small models
- `rebuilt_dates`, `rebuilt_cmudict`: the committed exports as models of the package, on `sources`
- `served_dates`, `served_cmudict`: the same exports as SavedModels
- `training`: losses of 30 steps, without dropout
- `files`: what the checkpoint, the tokenizers and the translator in `fixtures/files` give
- `sampling`, `training_dropout`: what depends on how random numbers are made

`saved` is no part: it writes `fixtures/files`. Later versions must read those of older ones, so a new version
does not write them again, unless it breaks the promise of CHANGELOG on purpose.

Each file names the kind of machine that recorded it. There the tests are strict; elsewhere sums are rounded
otherwise, so on another machine record from the commit to compare with first. All parts need TensorFlow.
"""

import functools
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import golden_decoding
import golden_exports
import golden_files
import golden_models
import golden_training
import keras
import numpy as np
import tensorflow as tf

FIXTURES = Path(__file__).parent / "fixtures"
# The array of each file that names the machine.
MACHINE = "machine"
PARTS: dict[str, Callable[[], golden_models.Arrays]] = {
    "logits": golden_models.logits,
    "half_logits": golden_models.half_logits,
    "decoding": golden_decoding.decoding,
    "sampling": golden_decoding.sampling,
    "training": functools.partial(golden_training.in_process, golden_training.WITHOUT_DROPOUT),
    "training_dropout": functools.partial(golden_training.in_process, golden_training.WITH_DROPOUT),
    "files": golden_files.answers,
    **{
        f"{kind}_{name}": functools.partial(function, name)
        for name in golden_exports.SIZES
        for kind, function in (("rebuilt", golden_exports.rebuilt), ("served", golden_exports.served))
    },
}


def fingerprint() -> str:
    """Name what the bits may depend on: the processor and the versions."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # another system
        lines = []
    described = {line.partition(":")[0].strip(): line.partition(":")[2].split() for line in lines}
    flags = [flag for flag in described.get("flags", ()) if flag.startswith(("avx", "fma", "amx"))]
    names = [" ".join(described.get(name, ())) for name in ("vendor_id", "cpu family", "model")]
    parts = [
        platform.machine(),
        *names,
        *sorted(flags),
        f"tensorflow {tf.__version__}",
        f"keras {keras.__version__}",
    ]
    return ", ".join(part for part in parts if part)


def read(part: str) -> tuple[golden_models.Arrays, bool]:
    """Read what was recorded, and whether it was on this kind of machine."""
    with np.load(FIXTURES / f"{part}.npz") as file:
        arrays = dict(file)
    return arrays, str(arrays.pop(MACHINE)) == fingerprint()


def record(part: str) -> None:
    """Compute a part, and keep what it gives."""
    start = time.monotonic()
    arrays = PARTS[part]()
    path = FIXTURES / f"{part}.npz"
    np.savez_compressed(path, **arrays, **{MACHINE: np.array(fingerprint())})
    seconds = time.monotonic() - start
    print(f"{part}: {len(arrays)} arrays, {path.stat().st_size:,} bytes, {seconds:.0f} s")


if __name__ == "__main__":
    FIXTURES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PARTS:
        if name == "saved":
            golden_files.write()
        else:
            record(name)
