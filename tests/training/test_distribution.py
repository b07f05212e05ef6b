"""Several devices, and several processes, train what one device trains."""

import ast
import contextlib
import functools
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest

import keras_transformer as kt
from keras_transformer._backend.distribution import ENGINES
from keras_transformer.errors import InputError
from keras_transformer.runs import RunConfig
from keras_transformer.training import distributed
from keras_transformer.training.distribution import _share_rows

DEVICES = "--xla_force_host_platform_device_count="
# In processes of their own, since devices are chosen before a backend is used. The two batches have different
# numbers of rows, 12 and 8, and rows different numbers of tokens; each further shape would be compiled.
TRAIN = """
import contextlib
import sys
import tempfile

mode, devices, process, address = sys.argv[1:]
import keras
if keras.backend.backend() == "tensorflow":
    import tensorflow as tf
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * int(devices))
if process:
    keras.distribution.initialize(address, 2, int(process))
import numpy as np
import keras_transformer as kt
# Before the dataset computes anything.
devices = kt.training.distributed(mode) if mode != "one" else contextlib.nullcontext()

pairs = [("ab" * number, "ba" * (number + number % 2) + "a") for number in [1, 2] * 6 + [3, 4] * 4]
tokenizer = kt.text.CharacterTokenizer(["a", "b"])
# In one order, since under a strategy of TensorFlow Keras begins the dataset once more than there are epochs.
dataset = kt.data.translation_dataset(pairs, tokenizer, tokenizer, tokens_per_batch=80, shuffle=False)
keras.utils.set_random_seed(0)
with devices:
    sizes = {"num_layers": 1, "hidden_dim": 16, "num_heads": 4, "intermediate_dim": 32, "dropout": 0.0}
    model = kt.models.Transformer(tokenizer.vocabulary_size, tokenizer.vocabulary_size, **sizes)
    kt.training.compile_model(model, 0.01)
    with tempfile.TemporaryDirectory() as directory:
        losses = kt.training.fit(model, dataset, directory=directory, epochs=3, verbose=0).history["loss"]
    sharding = {
        weight.path: str(weight.value.sharding.spec) for weight in model.weights
    } if mode == "model_parallel" else {}
print({"losses": losses, "sharding": sharding, "devices": len(keras.distribution.list_devices())})
"""


def start(
    backend: str, mode: str, devices: int = 1, process: str = "", address: str = ""
) -> subprocess.Popen:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "KERAS_BACKEND": backend,
        "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} {DEVICES}{devices}",
    }
    words = [sys.executable, "-W", "ignore", "-c", TRAIN, mode, str(devices), process, address]
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    with process:
        output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors[-3000:]
    return ast.literal_eval(output.splitlines()[-1])


@functools.cache
def losses_on_one(backend: str) -> list[float]:
    """Train on one device, once for all that is compared with it."""
    return finish(start(backend, "one"))["losses"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "mode", "devices"),
    [("tensorflow", "cores", 1), ("tensorflow", "mirrored", 2), ("jax", "model_parallel", 4)],
)
def test_devices_train_as_one(backend: str, mode: str, devices: int) -> None:
    pytest.importorskip(backend)
    several = finish(start(backend, mode, devices))
    assert several["losses"] == pytest.approx(losses_on_one(backend), abs=1e-5)
    assert several["losses"][-1] < several["losses"][0]
    if mode == "model_parallel":
        sharding = several["sharding"]
        assert several["devices"] == devices
        assert sharding["encoder/layer_1/self_attention/query/kernel"] == "P(None, 'model', None)"
        assert sum("model" in spec for spec in sharding.values()) > len(sharding) / 2


@pytest.mark.slow
def test_processes_train_as_one() -> None:
    pytest.importorskip("jax")
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    both = [start("jax", "data_parallel", 1, str(number), address) for number in range(2)]
    first, second = [finish(process) for process in both]
    assert first["devices"] == 2
    assert first["losses"] == second["losses"]
    assert first["losses"] == pytest.approx(losses_on_one("jax"), abs=1e-5)


def test_an_unknown_engine() -> None:
    message = (
        "`engine` must be one of 'cores', 'mirrored', 'tpu', 'data_parallel', 'model_parallel'. "
        "Received: engine='horovod'."
    )
    with pytest.raises(ValueError, match=re.escape(message)), distributed("horovod"):
        pass


def test_a_run_knows_the_same_engines() -> None:
    for engine in ENGINES:
        assert RunConfig().override(distribute=engine).training.distribute == engine


def test_an_engine_of_another_backend() -> None:
    engine, backend = ("mirrored", "tensorflow")
    if keras.backend.backend() == "tensorflow":
        engine, backend = ("data_parallel", "jax")
    with pytest.raises(InputError, match=f"set KERAS_BACKEND={backend}"), distributed(engine):
        pass


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the threads are TensorFlow's")
def test_cores_are_claimed_before_anything_is_computed() -> None:
    keras.ops.convert_to_numpy(keras.ops.ones(2))
    with pytest.raises(InputError, match=re.escape('Call kt.training.distributed("cores") before')):
        distributed("cores")


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the strategy is TensorFlow's")
def test_a_tpu_that_is_not_there() -> None:
    with pytest.raises(InputError, match="No TPU can be reached"), distributed("tpu"):
        pass


MULTI_WORKER = """
import tensorflow as tf
import keras
import keras_transformer as kt
with tf.distribute.MultiWorkerMirroredStrategy().scope():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
try:
    kt.training.fit(model, None, directory="never-made")
except kt.errors.InputError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the strategy is TensorFlow's")
def test_the_strategy_that_keras_fails_under_is_refused() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-W", "ignore", "-c", MULTI_WORKER]
    output = subprocess.run(words, env=environment, capture_output=True, text=True, check=False).stdout
    assert "KERAS_BACKEND=jax, keras.distribution.initialize() in each process" in output
    assert 'kt.training.distributed("data_parallel")' in output


# Batches of 2 and 1 rows, which `fit` fills for two devices. One device gets them filled, since Keras weights
# the losses of batches by their rows.
FIT = """
import contextlib
import sys
mode, directory = sys.argv[1:]
import tensorflow as tf
if mode == "mirrored":
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras
import keras_transformer as kt
from keras_transformer._backend import share_rows
from keras_transformer.data import EncodedPairs, translation_dataset
ids = tf.ragged.constant([[4], [5], [7, 8, 9, 10]], dtype=tf.int32)
dataset = translation_dataset(EncodedPairs(source=ids, target=ids), tokens_per_batch=8, shuffle=False)
if mode == "one":
    dataset = share_rows(dataset, 2)
with kt.training.distributed(mode) if mode != "one" else contextlib.nullcontext():
    keras.utils.set_random_seed(0)
    model = kt.Transformer(12, 12, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8, dropout=0.0)
    options = {"epochs": 2, "learning_rate": 0.01, "verbose": 0}
    checkpoint = kt.training.fit(model, dataset, dataset, directory=directory, **options)
print({name: checkpoint.history[name] for name in ("loss", "val_loss", "perplexity", "val_perplexity")})
"""


def history(backend: str, program: str, mode: str, directory: Path) -> dict[str, list[float]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "KERAS_BACKEND": backend}
    environment["XLA_FLAGS"] += f" {DEVICES}2"
    words = [sys.executable, "-W", "ignore", "-c", program, mode, str(directory)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return ast.literal_eval(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "mode"), [("tensorflow", "mirrored"), ("jax", "data_parallel")])
def test_fit_on_several_devices_is_fit_on_one(backend: str, mode: str, tmp_path: Path) -> None:
    pytest.importorskip(backend)
    one, several = (history(backend, FIT, each, tmp_path / each) for each in ("one", mode))
    for name, values in one.items():
        assert several[name] == pytest.approx(values, abs=1e-5), name


# A batch of 3 rows for two devices, with Keras's loss of rows and with the loss of tokens that ignores -100.
FIT_LABELS = """
import contextlib
import sys
mode, directory = sys.argv[1:]
import tensorflow as tf
import keras
import keras_transformer as kt
tokenizer = kt.text.CharacterTokenizer(["a", "b"])
texts = kt.data.classification_dataset(
    [("ab", "x"), ("b", "y"), ("ba", "x")], tokenizer, ["x", "y"], class_weight="balanced", shuffle=False
)
words = kt.data.tagging_dataset([(["ab", "b"], ["x", "y"])] * 3, tokenizer, ["x", "y"], shuffle=False)
keras_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
token_loss = kt.training.MaskedCrossentropy(pad_id=-100)
losses = {}
with kt.training.distributed(mode) if mode != "one" else contextlib.nullcontext():
    token_accuracy = kt.training.MaskedAccuracy(pad_id=-100)
    for name, dataset, pooling, loss, accuracy in (
        ("texts", texts, "mean", keras_loss, "accuracy"), ("words", words, None, token_loss, token_accuracy)
    ):
        keras.utils.set_random_seed(0)
        sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 8, "dropout": 0.0}
        model = kt.EncoderModel(tokenizer.vocabulary_size, 2, pooling=pooling, **sizes)
        model.compile(keras.optimizers.SGD(0.5), loss, weighted_metrics=[accuracy])
        options = {"epochs": 3, "verbose": 0}
        checkpoint = kt.training.fit(model, dataset, dataset, directory=f"{directory}/{name}", **options)
        losses[name] = checkpoint.history["loss"] + checkpoint.history["val_accuracy"]
    if mode != "one":
        model.compile("sgd", keras_loss, metrics=["accuracy"])
        try:
            kt.training.fit(model, texts, directory=f"{directory}/refused")
        except kt.errors.InputError as error:
            print(error)
print(losses)
"""


@pytest.mark.slow
def test_labels_on_several_devices_are_learned_as_on_one(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    one, several = (history("jax", FIT_LABELS, mode, tmp_path / mode) for mode in ("one", "data_parallel"))
    for name, values in one.items():
        assert several[name] == pytest.approx(values, abs=1e-5), name


@pytest.mark.parametrize(
    ("num_replicas", "loss", "num_rows"),
    [
        (1, kt.training.MaskedCrossentropy(), 3),
        (2, kt.training.MaskedCrossentropy(), 4),
        (2, [kt.training.MaskedCrossentropy()], 4),
        (2, kt.training.MaskedCrossentropy(pad_id=-100), 4),
        (2, [kt.training.MaskedCrossentropy(), kt.training.MaskedCrossentropy(pad_id=-100)], 3),
        (2, "mse", 3),
    ],
)
def test_rows_are_filled_for_replicas_where_they_count_nothing(
    num_replicas: int, loss: object, num_rows: int
) -> None:
    tf = pytest.importorskip("tensorflow")
    strategy = SimpleNamespace(num_replicas_in_sync=num_replicas)
    model = SimpleNamespace(distribute_strategy=strategy, loss=loss)
    dataset = tf.data.Dataset.from_tensors(([[1, 2]] * 3, [[1, 2]] * 3))
    shared, nothing = _share_rows(model, dataset, None)
    assert [batch[0].shape[0] for batch in shared] == [num_rows]
    assert nothing is None
