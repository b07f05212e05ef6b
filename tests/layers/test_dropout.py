"""Dropout keeps what it should, and scales so that the mean stays."""

from functools import partial

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import Dropout

ONES = np.ones((50, 31, 7), "float32")  # a size that is no multiple of eight


def dropped(rate: float, inputs: np.ndarray = ONES, **options: object) -> np.ndarray:
    outputs = Dropout(rate, seed=1, **options)(inputs, training=True)
    return ops.convert_to_numpy(ops.cast(outputs, "float32"))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_rate_is_the_share_that_is_dropped(rate: float) -> None:
    outputs = dropped(rate)
    deviation = (rate * (1 - rate) / ONES.size) ** 0.5
    assert abs(np.mean(outputs == 0) - rate) < 4 * deviation
    np.testing.assert_allclose(outputs[outputs != 0], 1 / (1 - rate), rtol=2e-4)


@pytest.mark.parametrize(
    "rate", [0.4 / 256, *(pytest.param(rate, marks=pytest.mark.slow) for rate in (0.1, 254.5 / 256))]
)
def test_the_rate_is_exact_over_many_calls(rate: float) -> None:
    layer = Dropout(rate, seed=2)
    shares = [np.mean(ops.convert_to_numpy(layer(ONES, training=True)) == 0) for _ in range(200)]
    # One call drops a share of the multiple of 1/256 below or above the rate.
    deviation = (rate * (1 - rate) / ONES.size / 200 + 0.25 / 256**2 / 200) ** 0.5
    assert abs(np.mean(shares) - rate) < 4 * deviation


def test_neighbors_are_dropped_independently() -> None:
    zeros = dropped(0.5).ravel() == 0
    for distance in range(1, 9):
        assert abs(np.mean(zeros[:-distance] & zeros[distance:]) - 0.25) < 0.02


def test_each_call_drops_others_and_a_seed_drops_the_same() -> None:
    layer = Dropout(0.5, seed=1)
    first, second = (ops.convert_to_numpy(layer(ONES, training=True)) for _ in range(2))
    assert 0.4 < np.mean(first == second) < 0.6
    np.testing.assert_array_equal(first, dropped(0.5))


@pytest.mark.parametrize(("rate", "training"), [(0.0, True), (0.5, False), (0.5, None)])
def test_nothing_is_dropped(rate: float, training: bool | None) -> None:
    np.testing.assert_array_equal(ops.convert_to_numpy(Dropout(rate)(ONES, training=training)), ONES)


def test_a_rate_next_to_one_keeps_the_rest_finite() -> None:
    assert np.all(np.isfinite(dropped(1 - 1e-7)))


def test_low_precision() -> None:
    assert set(np.unique(dropped(0.5, dtype="bfloat16"))) == {0.0, 2.0}


def test_a_noise_shape_is_shared_as_in_keras() -> None:
    outputs = dropped(0.5, noise_shape=(50, 1, 7))
    np.testing.assert_array_equal(outputs, np.broadcast_to(outputs[:, :1], outputs.shape))


def test_the_gradient_goes_where_nothing_was_dropped() -> None:
    dense = keras.layers.Dense(64, use_bias=False)
    model = keras.Sequential([keras.Input((64,)), dense, Dropout(0.5, seed=3)])
    dense.set_weights([np.eye(64, dtype="float32")])
    model.compile(keras.optimizers.SGD(1.0), lambda labels, outputs: ops.sum(outputs) / 64)
    outputs = Dropout(0.5, seed=3)(np.ones((1, 64), "float32"), training=True)
    model.train_on_batch(np.ones((1, 64), "float32"), np.zeros((1, 64), "float32"))
    steps = np.eye(64) - dense.get_weights()[0]
    np.testing.assert_allclose(steps[0] * 64, ops.convert_to_numpy(outputs)[0], atol=1e-4)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="XLA is JAX's own")
def test_what_xla_compiles_drops_the_same() -> None:
    tf = pytest.importorskip("tensorflow")
    outputs = []
    for jit_compile in (False, True):
        layer = Dropout(0.3, seed=1)
        call = partial(layer, training=True)
        outputs.append(tf.function(call, jit_compile=jit_compile, autograph=False)(ONES).numpy())
    np.testing.assert_array_equal(*outputs)
    assert (outputs[0] == 0).any()
