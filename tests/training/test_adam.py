"""The kernel's Adam is Keras's Adam, wherever it is used."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.training import Adam, load_model

INPUTS = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
TARGETS = np.random.default_rng(1).normal(size=(64, 2)).astype("float32")


def trained(adam: type[keras.optimizers.Adam], batch_size: int = 16, **options: Any) -> keras.Model:
    """Train two dense layers."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(2)])
    schedule = keras.optimizers.schedules.CosineDecay(0.01, 10)
    model.compile(adam(schedule, beta_2=0.98, epsilon=1e-9, **options), "mse")
    model.fit(INPUTS, TARGETS, batch_size=batch_size, epochs=3, shuffle=False, verbose=0)
    return model


OPTIONS: list[dict[str, Any]] = [
    {},
    {"amsgrad": True},
    {"global_clipnorm": 0.1},
    {"weight_decay": 0.1},
    {"use_ema": True, "ema_momentum": 0.9},
]


@pytest.mark.parametrize(
    "options",
    [OPTIONS[0], *(pytest.param(options, marks=pytest.mark.slow) for options in OPTIONS[1:])],
    ids=lambda options: next(iter(options), "plain"),
)
def test_it_trains_as_keras_does(options: dict[str, Any]) -> None:
    ours, theirs = trained(Adam, **options), trained(keras.optimizers.Adam, **options)
    for weight, expected in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(weight, expected, atol=2e-6)
    for state, expected in zip(ours.optimizer.variables, theirs.optimizer.variables, strict=True):
        np.testing.assert_allclose(np.array(state), np.array(expected), atol=2e-6)


@pytest.mark.parametrize(
    "options", [pytest.param({}, marks=pytest.mark.slow), {"use_ema": True, "ema_momentum": 0.9}]
)
def test_schedule_and_average_count_updates(options: dict[str, Any]) -> None:
    """Keras's own count the batches that are accumulated."""
    whole, parts = trained(Adam, 32, **options), trained(Adam, 16, gradient_accumulation_steps=2, **options)
    for weight, expected in zip(parts.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_allclose(weight, expected, atol=1e-6)


def test_a_token_that_repeats_in_a_batch_has_one_gradient() -> None:
    """Keras's own, on TensorFlow, adds up the squares of what each occurrence gives instead."""
    ids = np.array([[0, 1, 1, 2, 1]])
    upstream = np.array([[[0.5], [1.0], [2.0], [-1.0], [-4.0]]], "float32")
    gradient = np.array([[0.5], [-1.0], [-1.0], [0.0]])  # of the rows of tokens 0 to 3
    model = keras.Sequential([keras.Input((5,), dtype="int32"), keras.layers.Embedding(4, 1)])
    expected = model.get_weights()[0].astype("float64")
    model.compile(Adam(0.1, 0.9, 0.98, 1e-9), lambda labels, outputs: ops.sum(outputs * labels))
    momentum, velocity = np.zeros((4, 1)), np.zeros((4, 1))
    for step in (1, 2, 3):
        factor = float(step)  # so that the moments differ from step to step
        momentum = 0.9 * momentum + 0.1 * gradient * factor
        velocity = 0.98 * velocity + 0.02 * (gradient * factor) ** 2
        rate = 0.1 * (1 - 0.98**step) ** 0.5 / (1 - 0.9**step)
        expected -= rate * momentum / (velocity**0.5 + 1e-9)
        model.train_on_batch(ids, upstream * factor)
    np.testing.assert_allclose(model.get_weights()[0], expected, atol=1e-5)


def test_it_is_saved_with_its_state(tmp_path: Path) -> None:
    model = trained(Adam)
    model.save(tmp_path / "model.keras")
    restored = load_model(tmp_path / "model.keras")
    assert type(restored.optimizer) is Adam
    for copy in (model, restored):
        copy.fit(INPUTS, TARGETS, batch_size=16, shuffle=False, verbose=0)
    for weight, expected in zip(restored.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, expected)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the kernel is TensorFlow's")
def test_it_is_one_operation() -> None:
    import tensorflow as tf

    optimizer, weight = Adam(0.1), keras.Variable([1.0, 2.0])
    optimizer.build([weight])
    step = tf.function(lambda gradient: optimizer.apply([gradient], [weight]))
    operations = [node.type for node in step.get_concrete_function(tf.ones(2)).graph.get_operations()]
    assert operations.count("ResourceApplyAdam") == 1
    assert "Sqrt" not in operations


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="only a graph of TensorFlow has no order")
def test_no_weight_is_updated_before_all_gradients_are_there() -> None:
    import tensorflow as tf

    optimizer, weights = Adam(0.1), [keras.Variable([1.0, 2.0]), keras.Variable([3.0])]
    optimizer.build(weights)
    step = tf.function(lambda first, second: optimizer.apply([first, second], weights))
    graph = step.get_concrete_function(tf.ones(2), tf.ones(1)).graph
    updates = [node for node in graph.get_operations() if node.type == "ResourceApplyAdam"]
    assert len(updates) == 2
    for update in updates:
        # Keras joins them by an `IdentityN`, which TensorFlow takes apart again.
        for source in update.inputs[-1].op.inputs:
            before = [*source.op.control_inputs, *(tensor.op for tensor in source.op.inputs)]
            assert {node.name for node in before} == {"first", "second"}
