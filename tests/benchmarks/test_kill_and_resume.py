"""A killed run ends with the bits of the uninterrupted one, and the comparison would notice if not."""

import importlib
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import keras
import numpy as np
import pytest

from keras_transformer.training import Checkpoint, CheckpointWarning, read_checkpoint

if keras.backend.backend() != "tensorflow" or not hasattr(os, "fork"):
    pytest.skip("the command line trains on TensorFlow, and Windows has no fork", allow_module_level=True)


@pytest.fixture
def program(benchmarks: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(benchmarks)
    return importlib.import_module("kill_and_resume")


def save(directory: Path, *, change: str = "", epochs: int = 1) -> Path:
    """Save what a run leaves; `change` says what differs from the other runs."""
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(3), keras.layers.Dropout(0.5, seed=7)]
    model = keras.Sequential([keras.Input((2,)), *layers])
    model.compile(optimizer=keras.optimizers.Adam(), loss="mse")
    model.optimizer.build(model.trainable_variables)
    if change == "weights":
        kernel = layers[0].kernel
        kernel.assign(np.nextafter(kernel.numpy(), np.inf, dtype="float32"))
    if change == "optimizer":
        model.optimizer.iterations.assign_add(1)
    if change == "random_state":
        model(np.ones((1, 2)), training=True)
    checkpoint = Checkpoint(directory)
    checkpoint.set_model(model)
    for epoch in range(epochs):
        checkpoint.on_epoch_end(epoch, {"val_loss": 2.5 if change == "history" else 3.5})
    return directory


@pytest.mark.parametrize("change", ["", "weights", "optimizer", "random_state", "history"])
def test_a_fingerprint_differs_in_what_differs(program: ModuleType, change: str, tmp_path: Path) -> None:
    first, second = (
        program.fingerprint(save(tmp_path / name, change=value)) for name, value in (("a", ""), ("b", change))
    )
    assert len(first) == 5
    assert [name for name in first if first[name] != second[name]] == ([change] if change else [])


def test_damage_is_noticed(program: ModuleType, tmp_path: Path) -> None:
    assert program.damage(save(tmp_path / "one"), random.Random(0)) == ""
    directory = save(tmp_path / "two", epochs=2)
    assert program.damage(directory, random.Random(0)) == "; one bit of epoch-0002.keras flipped"
    with pytest.warns(CheckpointWarning, match="is used instead"):
        assert read_checkpoint(directory)[1].epoch == 1


def test_a_process_that_failed_is_an_error(program: ModuleType) -> None:
    process = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], {})
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    with pytest.raises(RuntimeError, match="the run failed with status 3"):
        program.has_ended(process)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--all-options",)])
def test_a_kill(run_program: Callable[..., str], options: tuple[str, ...]) -> None:
    output = run_program("kill_and_resume", "--kills", 1, "--epochs", 2, *options)
    assert "the same bits" in output
    assert re.search(r"^(\d+) of \1 runs, killed \d+ times in all", output, flags=re.MULTILINE), output
