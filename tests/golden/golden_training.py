"""Losses of 30 training steps, to the bit.

Run as a program, since deterministic operations and the number of threads are set for a whole process:
`python golden_training.py losses.npz smoothing dropout`.
"""

import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import golden_models as models
import keras
import numpy as np
import tensorflow as tf

import keras_transformer as kt

NUM_STEPS, BATCH, WARMUP = 30, 16, 10
# One thread, and the instructions that every x86 processor has: what else would order sums otherwise.
ENVIRONMENT = {
    "KERAS_BACKEND": "tensorflow",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "CUDA_VISIBLE_DEVICES": "-1",
}


@dataclasses.dataclass(frozen=True)
class Run:
    """A model, what differs from its options, and its loss."""

    make: Callable[..., Any]
    options: dict[str, Any]
    loss: keras.losses.Loss


def _smoothed(**options: Any) -> keras.losses.Loss:
    return kt.training.MaskedCrossentropy(label_smoothing=0.1, **options)


_EVERYWHERE = {"dropout": 0.1, "attention_dropout": 0.1, "intermediate_dropout": 0.1}

# Nothing is random here, but for the fixed weights and batches.
WITHOUT_DROPOUT = {
    "smoothing": Run(models.transformer, {"dropout": 0.0}, _smoothed()),
    "plain": Run(models.transformer, {"dropout": 0.0}, kt.training.MaskedCrossentropy()),
    "z_loss": Run(models.transformer, {"dropout": 0.0}, _smoothed(z_loss=1e-2)),
    "modern": Run(models.transformer, {**models.OPTIONS["modern"], "dropout": 0.0}, _smoothed()),
    "CausalLM": Run(models.causal_lm, {"dropout": 0.0}, _smoothed()),
    "EncoderModel": Run(
        models.encoder_model, {"dropout": 0.0, "num_outputs": models.SOURCE_SIZE}, _smoothed()
    ),
}
# Here the bits depend on how random numbers are made.
WITH_DROPOUT = {
    "dropout": Run(models.transformer, {"dropout": 0.1}, _smoothed()),
    "everywhere": Run(models.transformer, _EVERYWHERE, _smoothed()),
    "r_drop": Run(models.transformer, {"dropout": 0.1}, kt.training.RDropCrossentropy(label_smoothing=0.1)),
    "CausalLM_dropout": Run(models.causal_lm, {"dropout": 0.1}, _smoothed()),
}
RUNS = {**WITHOUT_DROPOUT, **WITH_DROPOUT}


def in_process(names: Iterable[str]) -> models.Arrays:
    """Train some of `RUNS` in a process of their own, and give the losses of each."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "losses.npz"
        environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)}
        finished = subprocess.run(
            [sys.executable, __file__, str(path), *names],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if finished.returncode:
            raise RuntimeError(finished.stderr)
        with np.load(path) as arrays:
            return dict(arrays)


def losses(run: Run) -> np.ndarray:
    """Train a model, and give the loss of each step."""
    keras.utils.set_random_seed(0)  # before the model is made, which makes the seeds of its dropout
    model = run.make(**run.options)
    schedule = kt.training.NoamSchedule(models.SIZES["hidden_dim"], WARMUP, scale=0.5)
    model.compile(kt.training.Adam(schedule, beta_2=0.98, epsilon=1e-9), run.loss, jit_compile=False)
    found = []
    for inputs, labels in _batches(type(model)):
        model.reset_metrics()  # Keras gives the mean since then
        found.append(model.train_on_batch(inputs, labels))
    return np.array(found, "float32")


def _batches(model_class: type) -> list[tuple[Any, np.ndarray]]:
    """Make batches of a copying task, with padding, the same in each process."""
    generator, batches = np.random.default_rng(5), []
    for _ in range(NUM_STEPS):
        rows = generator.integers(4, models.SOURCE_SIZE, size=(BATCH, 7)).astype("int32")
        rows[np.arange(7) >= generator.integers(2, 8, size=(BATCH, 1))] = 0
        started = np.pad(rows, [(0, 0), (1, 0)], constant_values=2)[:, :-1] * (rows != 0)
        if model_class is kt.Transformer:
            batches.append(({"encoder_token_ids": rows, "decoder_token_ids": started}, rows))
        elif model_class is kt.CausalLM:
            batches.append((started, rows))
        else:
            batches.append((rows, rows[:, ::-1] * (rows != 0)))
    return batches


if __name__ == "__main__":
    tf.config.experimental.enable_op_determinism()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    np.savez_compressed(sys.argv[1], **{name: losses(RUNS[name]) for name in sys.argv[2:]})
