"""Trains three steps in a new process; prints the seconds of the first and a hash of the weights."""

import argparse
import hashlib
import json
import time
from typing import Any

import keras

from benchmarks.accelerator import models


def train(*, tiny: bool) -> dict[str, Any]:
    """Train a model from a fixed seed, and return the results."""
    keras.utils.set_random_seed(0)
    import keras_transformer as kt

    size, vocabulary = ("tiny", 50) if tiny else ("base", 32000)
    model = models.preset(size, "mixed_bfloat16", vocabulary_size=vocabulary)
    kt.training.compile_model(model, 1e-4)
    inputs, labels = models.batch(vocabulary, *((4, 8) if tiny else (128, 64)))
    seconds, loss = [], 0.0
    for _ in range(3):
        start = time.perf_counter()
        loss = float(model.train_on_batch(inputs, labels)[0])
        seconds.append(time.perf_counter() - start)
    digest = hashlib.sha256()
    for weight in model.trainable_variables:
        digest.update(keras.ops.convert_to_numpy(weight).tobytes())
    return {
        "first_step": seconds[0],
        "last_step": seconds[-1],
        "loss": loss,
        "weights": digest.hexdigest()[:16],
    }


def main() -> None:
    """Train with a cache of compiled steps, and print JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accelerator.first_step", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("cache", help="directory of JAX's compiled steps")
    parser.add_argument("--tiny", action="store_true", help="train a tiny model")
    options = parser.parse_args()
    if keras.backend.backend() == "jax":
        import jax

        jax.config.update("jax_compilation_cache_dir", options.cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    print(json.dumps(train(tiny=options.tiny)))


if __name__ == "__main__":
    main()
