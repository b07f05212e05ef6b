"""Activations that are computed again in the backward pass: the same numbers, in less memory."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt

OPTIONS = {
    "post-norm": {},
    "relative": {"positions": "relative", "norm_first": True, "normalization": "rms"},
    "rotary": {"positions": "rotary", "norm_first": True, "gated": True, "num_key_value_heads": 1},
}
RATES = {"dropout": 0.3, "attention_dropout": 0.2, "intermediate_dropout": 0.2}
IDS = np.random.default_rng(0).integers(4, 20, (3, 7)).astype("int32")
IDS[0], IDS[1, 4:] = 0, 0  # a row without a token, and padding
PAIRS = {"encoder_token_ids": IDS, "decoder_token_ids": IDS[:, :5]}


def made(*, rematerialize: bool, num_layers: int = 2, **options: Any) -> kt.Transformer:
    keras.utils.set_random_seed(3)
    sizes = {"num_layers": num_layers, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 12}
    return kt.Transformer(20, 20, **{**sizes, **RATES, **options}, rematerialize=rematerialize)


def trained(model: kt.Transformer, *, steps: int = 2, **compiled: Any) -> list[np.ndarray]:
    """Take steps of gradient descent, and return all variables: weights, and the states of all seeds."""
    model.compile(keras.optimizers.SGD(0.5), kt.training.MaskedCrossentropy(), **compiled)
    keras.utils.set_random_seed(4)  # torch draws masks from its own generator
    for _ in range(steps):
        model.train_on_batch(PAIRS, IDS[:, :5])
    return [keras.ops.convert_to_numpy(variable) for variable in model.variables]


def assert_same(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        # A compiler that fuses other operations rounds otherwise: 2e-6 after two steps.
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_the_same_masks_are_drawn() -> None:
    """A step differs if only one number of one mask of dropout does."""
    options = {"num_layers": 1, **OPTIONS["relative"]}
    plain = trained(made(rematerialize=False, **options), run_eagerly=True)
    assert_same(trained(made(rematerialize=True, **options), run_eagerly=True), plain)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_same_masks_are_drawn_in_a_compiled_step(name: str, jit_compile: bool) -> None:
    if jit_compile and keras.backend.backend() == "torch":
        pytest.skip("the compiler of torch takes minutes")
    if not jit_compile and keras.backend.backend() == "jax":
        pytest.skip("JAX has no graph without XLA: this is the eager step of the test above")
    plain = trained(made(rematerialize=False, **OPTIONS[name]), jit_compile=jit_compile)
    assert_same(trained(made(rematerialize=True, **OPTIONS[name]), jit_compile=jit_compile), plain)
    # And it would be seen.
    options = {**OPTIONS[name], "dropout": 0.31}
    other = trained(made(rematerialize=False, **options), jit_compile=jit_compile)
    assert max(np.abs(a.astype("float64") - b).max() for a, b in zip(plain, other, strict=True)) > 1e-3


def test_a_saved_model_keeps_the_option_and_answers_the_same(tmp_path: Path) -> None:
    model, plain = (made(rematerialize=each, num_layers=1) for each in (True, False))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.config.rematerialize
    assert loaded.get_config()["rematerialize"] is True
    assert loaded.encoder.layers[0].rematerialize
    expected = keras.ops.convert_to_numpy(plain(PAIRS))
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(model(PAIRS)), expected)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(loaded(PAIRS)), expected)


def test_a_layer_alone_keeps_a_keras_mask_and_takes_the_memory_by_name() -> None:
    """Gradients of inputs, and of an encoder's output that is given by its name."""
    tf = pytest.importorskip("tensorflow")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("a tape is TensorFlow's")
    found = []
    for rematerialize in (False, True):
        keras.utils.set_random_seed(0)
        layer = kt.layers.DecoderLayer(2, 8, dropout=0.3, rematerialize=rematerialize)
        embedding = kt.layers.TokenEmbedding(20, 4)
        x, memory = embedding(IDS[:, :5]), tf.ones((3, 4, 6))
        with tf.GradientTape() as tape:
            tape.watch([x, memory])
            outputs = layer(x, encoder_output=memory, training=True)
            loss = tf.reduce_sum(outputs * tf.cast(IDS[:, :5, None], "float32"))
        found.append([outputs, *tape.gradient(loss, [x, memory, *layer.trainable_weights])])
    assert_same([each.numpy() for each in found[1]], [each.numpy() for each in found[0]])


def test_a_keras_mask_reaches_what_runs_again() -> None:
    outputs = []
    for rematerialize in (False, True):
        keras.utils.set_random_seed(0)
        layer = kt.layers.EncoderLayer(2, 8, rematerialize=rematerialize)
        embedded = kt.layers.TokenEmbedding(20, 4)(IDS[1:])
        outputs.append(keras.ops.convert_to_numpy(keras.ops.stop_gradient(layer(embedded, training=True))))
    np.testing.assert_allclose(outputs[1], outputs[0], atol=1e-6)


@pytest.mark.parametrize("value", [1, "full"])
def test_another_value_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=rf"`rematerialize` must be .*Received: rematerialize={value!r}"):
        made(rematerialize=value)


def run(backend: str, *arguments: str, **environment: str) -> str:
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    [package] = kt.__path__
    finished = subprocess.run(
        [sys.executable, *arguments],
        env={
            **os.environ,
            "KERAS_BACKEND": backend,
            "PYTHONPATH": str(Path(package).parent),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_this_file_on_another_backend(backend: str) -> None:
    chosen = "masks_are_drawn or saved_model or reaches"
    output = run(backend, "-m", "pytest", __file__, "-n", "0", "-q", "-m", "not backend", "-k", chosen)
    assert "6 passed" in output


MEASURE = """
import keras, numpy as np
import keras_transformer as kt

ids = np.ones((16, 64), "int32")
inputs = {"encoder_token_ids": ids, "decoder_token_ids": ids}
found = []
for rematerialize in (False, True):
    sizes = {"hidden_dim": 128, "intermediate_dim": 512, "rematerialize": rematerialize}
    model = kt.Transformer.from_preset("base", 500, 500, **sizes)
    loss = kt.training.MaskedCrossentropy()
    if keras.backend.backend() == "jax":
        import jax

        weights, others = (
            [variable.value for variable in group]
            for group in (model.trainable_variables, model.non_trainable_variables)
        )
        def total(weights):
            return loss(ids, model.stateless_call(weights, others, inputs, training=True)[0])
        compiled = jax.jit(jax.grad(total)).lower(weights).compile()
        found.append(compiled.memory_analysis().temp_size_in_bytes)
    else:
        import torch

        kept = {}
        def pack(tensor):
            kept[tensor.data_ptr()] = tensor.nbytes
            return tensor
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss(ids, model(inputs, training=True))
        found.append(sum(kept.values()))
print(1 - found[1] / found[0])
"""


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_step_takes_less_memory(backend: str) -> None:
    # The other schedule, the default on a processor alone, spreads operations over its threads and computes
    # early what could wait.
    schedule = "--xla_cpu_enable_concurrency_optimized_scheduler=false"
    saved = float(run(backend, "-c", MEASURE, XLA_FLAGS=schedule).splitlines()[-1])
    assert saved >= 0.3
