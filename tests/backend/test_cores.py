"""A step on parts of a batch is the step on all of it: loss, gradients and metrics."""

import unittest.mock
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt

RNG = np.random.default_rng(7)
pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the engine is TensorFlow's")


def batch(num_rows: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Rows of different numbers of tokens: in the first half of them, less than half as many."""
    source, target = RNG.integers(1, 19, (num_rows, 5)), RNG.integers(1, 19, (num_rows, 6))
    target[: num_rows // 2, 2:] = 0
    return {"encoder_token_ids": source, "decoder_token_ids": target}, np.where(target > 0, target[:, :1], 0)


def on_cores(num_cores: int) -> AbstractContextManager[object]:
    """Train on so many cores; the threads of this process stay as they are."""
    if num_cores == 1:
        return nullcontext()
    with unittest.mock.patch("keras_transformer._backend.cores._claim_cores", return_value=num_cores):
        return kt.training.distributed("cores")


def trained(
    num_cores: int, loss: Any, batches: Any, *weights: np.ndarray, **options: Any
) -> tuple[dict, list]:
    """Train on each batch; give the metrics and the weights."""
    keras.utils.set_random_seed(3)
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 8, "dropout": 0.0}
    model = kt.Transformer(19, 19, **sizes)
    # Not Adam, which would blow up the rounding of gradients that are zero, as a key's bias has them.
    metrics = [kt.training.MaskedAccuracy(), kt.training.Perplexity()]
    model.compile(keras.optimizers.SGD(0.1, **options), loss, weighted_metrics=metrics)
    with on_cores(num_cores):
        for x, y in batches:
            model.train_on_batch(x, y, *weights)
    return {name: float(value) for name, value in model.get_metrics_result().items()}, model.get_weights()


def check_same(of_parts: tuple[dict, list], of_whole: tuple[dict, list]) -> None:
    assert of_parts[0] == pytest.approx(of_whole[0], rel=1e-5)
    for part, whole in zip(of_parts[1], of_whole[1], strict=True):
        np.testing.assert_allclose(part, whole, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("num_rows", [7, 1], ids=["odd", "fewer rows than parts"])
def test_parts_train_as_the_whole(num_rows: int) -> None:
    loss, batches = kt.training.MaskedCrossentropy(0.1), [batch(num_rows) for _ in range(2)]
    check_same(trained(3, loss, batches), trained(1, loss, batches))


@pytest.mark.slow
def test_passes_clipping_and_accumulation_know_nothing_of_parts() -> None:
    loss, batches = kt.training.RDropCrossentropy(2.0, 0.1), [batch(4) for _ in range(2)]
    options = {"global_clipnorm": 0.1, "gradient_accumulation_steps": 2}
    check_same(trained(2, loss, batches, **options), trained(1, loss, batches, **options))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(6,), (6, 6)], ids=["of rows", "of tokens"])
def test_sample_weights_count_as_in_the_whole(shape: tuple[int, ...]) -> None:
    loss, batches, weights = kt.training.MaskedCrossentropy(), [batch(6)], RNG.uniform(0, 3, shape)
    check_same(trained(2, loss, batches, weights), trained(1, loss, batches, weights))


@pytest.mark.slow
def test_weights_that_say_it_all_are_summed() -> None:
    loss, batches, weights = (
        kt.training.MaskedCrossentropy(normalize=False),
        [batch(6)],
        RNG.uniform(0, 0.1, 6),
    )
    check_same(trained(2, loss, batches, weights), trained(1, loss, batches, weights))


@pytest.mark.slow
def test_a_batch_without_a_token_has_no_loss() -> None:
    (inputs, labels), loss = batch(4), kt.training.MaskedCrossentropy()
    assert trained(2, loss, [(inputs, 0 * labels)])[0]["loss"] == 0


@pytest.mark.slow
def test_each_part_runs_by_itself() -> None:
    calls: list[tuple[int, ...]] = []

    class Spy(kt.Transformer):
        def call(self, inputs: Any, *arguments: Any, **options: Any) -> Any:
            calls.append(tuple(inputs["encoder_token_ids"].shape))
            return super().call(inputs, *arguments, **options)

    model = Spy(19, 19, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8)
    kt.training.compile_model(model, 0.01)
    calls.clear()
    with on_cores(2):
        model.train_on_batch(*batch(7))
    assert set(calls) == {(3, 5), (4, 5)}
    calls.clear()
    model.make_train_function(force=True)
    model.train_on_batch(*batch(7))
    assert set(calls) == {(7, 5)}


def test_a_loss_that_cannot_tell_what_a_part_counts_is_refused() -> None:
    model = kt.EncoderModel(19, 2, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8)
    model.compile("sgd", "mse")
    with on_cores(2), pytest.raises(ValueError, match=r"MaskedCrossentropy`\. Received: loss='mse'"):
        model.train_on_batch(RNG.integers(1, 19, (4, 5)), np.zeros((4, 5, 2)))
