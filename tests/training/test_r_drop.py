"""The loss of two passes against its formula, and a model that trains with it."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from helpers import array
from keras_transformer.training import MaskedCrossentropy, RDropCrossentropy

LABELS = np.array([[5, 2, 6, 0, 0], [1, 3, 0, 0, 0], [4, 4, 4, 6, 1]], dtype="int32")  # (3, 5)
LOGITS = np.random.default_rng(0).normal(scale=3.0, size=(3, 5, 7)).astype("float32")  # (3, 5, 7)
OTHER = np.random.default_rng(1).normal(scale=3.0, size=(3, 5, 7)).astype("float32")


def log_softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits.astype("float64"))
    return np.log(exponentials / exponentials.sum(-1, keepdims=True))


def divergence(logits: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The mean of both Kullback-Leibler divergences by their definition, `(b, t)`."""
    log_p, log_q = log_softmax(logits), log_softmax(other)
    forward = np.sum(np.exp(log_p) * (log_p - log_q), axis=-1)
    return (forward + np.sum(np.exp(log_q) * (log_q - log_p), axis=-1)) / 2


def paper_loss(labels: np.ndarray, logits: np.ndarray, other: np.ndarray, alpha: float) -> float:
    """Equation 4 of Liang et al., a mean over real tokens, without label smoothing."""
    chosen = [
        np.take_along_axis(log_softmax(each), labels[..., None], -1)[..., 0] for each in (logits, other)
    ]
    losses = -chosen[0] - chosen[1] + alpha * divergence(logits, other)
    return float(losses[labels != 0].mean())


def distance(labels: Any, logits: Any, other: Any) -> float:
    """The mean divergence of both passes over real tokens, as the loss computes it."""
    return float(RDropCrossentropy(2.0).distance(labels, logits, other))


def test_the_distance_is_the_mean_of_both_directions() -> None:
    expected = divergence(LOGITS, OTHER)[LABELS != 0].mean()
    assert distance(LABELS, LOGITS, OTHER) == pytest.approx(expected, rel=1e-4)
    assert distance(LABELS, LOGITS, LOGITS) == 0
    logits, other = ops.cast(LOGITS, "bfloat16"), ops.cast(OTHER, "bfloat16")
    exact = divergence(*(array(ops.cast(each, "float32")) for each in (logits, other)))[LABELS != 0].mean()
    assert distance(LABELS, logits, other) == pytest.approx(exact, rel=1e-4)


def test_far_logits_give_no_nan() -> None:
    far = np.where(np.arange(7) == 3, 200.0, -200.0).astype("float32")[None, None]
    assert distance(np.array([[1]]), far, -far) == pytest.approx(400 / 2 * 2, rel=1e-2)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 5.0])
def test_the_loss_is_half_of_equation_4(alpha: float) -> None:
    loss = RDropCrossentropy(alpha)
    total = (float(loss(LABELS, LOGITS)) + float(loss(LABELS, OTHER))) / 2
    total += float(loss.distance(LABELS, LOGITS, OTHER))
    assert total == pytest.approx(paper_loss(LABELS, LOGITS, OTHER, alpha) / 2, rel=1e-5)


def test_sample_weights_count_for_the_distance_too() -> None:
    weights = np.array([2.0, 0.0, 1.0], "float32")
    expected = np.average(divergence(LOGITS, OTHER), weights=(LABELS != 0) * weights[:, None])
    compared = float(RDropCrossentropy(3.0).distance(LABELS, LOGITS, OTHER, weights))
    assert compared == pytest.approx(1.5 * expected, rel=1e-5)


class Alternating(keras.layers.Layer):
    """Gives one table of logits in the first training pass of each step, and another in the second."""

    def build(self, input_shape: Any) -> None:
        self.table = self.add_weight(shape=(2, 3, 5, 7), name="table")
        self.count = self.add_weight(shape=(), dtype="int32", initializer="zeros", trainable=False)

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training:
            return self.table[0]
        row = self.count + 0
        self.count.assign(1 - self.count)
        return ops.take(self.table, row, axis=0)


class TwoPasses(kt.CausalLM):
    """A model whose logits are those tables."""

    def __init__(self) -> None:
        super().__init__(7, num_layers=1, hidden_dim=2, num_heads=1, intermediate_dim=1)
        for layer in self.layers:
            layer.trainable = False
        self.tables = Alternating()
        self.tables.build((None, 5))

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        return self.tables(inputs, training=training)


def make_model(weight: float) -> Any:
    model = TwoPasses()
    model.tables.set_weights([np.stack([LOGITS, OTHER]), np.zeros((), "int32")])
    model.compile(keras.optimizers.SGD(1.0), RDropCrossentropy(weight), jit_compile=False)
    return model


def numeric_gradient(alpha: float, place: tuple[int, ...], step: float = 1e-4) -> float:
    values = []
    for sign in (1, -1):
        tables = np.stack([LOGITS, OTHER]).astype("float64")
        tables[place] += sign * step
        values.append(paper_loss(LABELS, *tables, alpha) / 2)
    return (values[0] - values[1]) / (2 * step)


def test_a_step_of_fit_follows_the_gradient_of_both_passes() -> None:
    model = make_model(5.0)
    assert model.train_on_batch(LABELS, LABELS) == pytest.approx(
        paper_loss(LABELS, LOGITS, OTHER, 5.0) / 2, rel=1e-5
    )
    moved = np.stack([LOGITS, OTHER]) - model.tables.get_weights()[0]
    for place in [(0, 0, 0, 5), (0, 2, 4, 3), (1, 0, 0, 5), (1, 1, 1, 0), (1, 0, 4, 2)]:
        assert moved[place] == pytest.approx(numeric_gradient(5.0, place), abs=2e-4)


def test_evaluation_has_one_pass_and_the_plain_loss() -> None:
    expected = float(MaskedCrossentropy()(LABELS, LOGITS))
    assert make_model(5.0).evaluate(LABELS, LABELS, verbose=0) == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_dropout_differs_between_the_passes_and_a_saved_model_goes_on(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"num_layers": 1, "hidden_dim": 6, "num_heads": 2, "intermediate_dim": 5}
    inputs = {"encoder_token_ids": LABELS + (LABELS > 0), "decoder_token_ids": np.maximum(LABELS, 1)}
    losses = {}
    for dropout in (0.0, 0.5):
        keras.utils.set_random_seed(0)
        model = kt.Transformer(9, 9, **sizes, dropout=dropout)
        for weight in (0.0, 5.0):
            model.compile(keras.optimizers.SGD(0.0), RDropCrossentropy(weight), run_eagerly=True)
            losses[dropout, weight] = model.train_on_batch(inputs, LABELS)
    assert losses[0.0, 5.0] == pytest.approx(losses[0.0, 0.0], rel=1e-5)
    assert losses[0.5, 5.0] > losses[0.5, 0.0] + 0.1
    model.save(tmp_path / "model.keras")
    loss = keras.saving.load_model(tmp_path / "model.keras").loss
    assert isinstance(loss, RDropCrossentropy)
    assert loss.get_config() == {**RDropCrossentropy(5.0).get_config(), "dtype": "float32"}


@pytest.mark.parametrize("weight", [-0.5, float("inf")])
def test_a_wrong_weight_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match=rf"at least 0 and finite\. Received: weight={weight}\."):
        RDropCrossentropy(weight)
