"""Writes the outputs of the models of `models.OPTIONS`, computed by TensorFlow in float64 on a processor.

    KERAS_BACKEND=tensorflow python -m benchmarks.accelerator.reference

The checks compare an accelerator with it. Only the attention softmax and the positions are float32.
"""

import argparse
from pathlib import Path

import keras
import numpy as np

from benchmarks.accelerator.models import OPTIONS, inputs_of, make

FILE = Path(__file__).with_name("reference.npz")


def main() -> None:
    """Write the file."""
    argparse.ArgumentParser(
        prog="python -m benchmarks.accelerator.reference", description=(__doc__ or "").splitlines()[0]
    ).parse_args()
    results = {}
    for name in OPTIONS:
        model = make(name, "float64")
        inputs = {
            key: np.asarray(value, "float64" if value.dtype.kind == "f" else None)
            for key, value in inputs_of(model).items()
        }
        results[name] = keras.ops.convert_to_numpy(model(inputs)).astype("float32")
    np.savez_compressed(FILE, **results)
    print(f"{FILE}: {FILE.stat().st_size:,} bytes, {len(results)} models")


if __name__ == "__main__":
    main()
