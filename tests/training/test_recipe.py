"""Compile, fit, save, load and go on."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.training import (
    InverseSquareRootSchedule,
    MaskedCrossentropy,
    RDropCrossentropy,
    compile_model,
)


@pytest.fixture(scope="module")
def batch() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Pairs whose target is the source: inputs `(8, 5)` and labels `(8, 5)`."""
    rng = np.random.default_rng(0)
    source = rng.integers(4, 9, size=(8, 5)).astype("int32")
    source[:, 4], source[::2, 3] = 3, 0
    target = np.concatenate([np.full((8, 1), 2, "int32"), source[:, :-1]], axis=1)
    return {"encoder_token_ids": source, "decoder_token_ids": target}, source


@pytest.fixture(scope="module")
def trained(batch: Any) -> tuple[keras.Model, keras.callbacks.History]:
    keras.utils.set_random_seed(0)
    model = kt.Transformer(9, 9, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16, dropout=0.0)
    compile_model(model, InverseSquareRootSchedule(0.01, 4), label_smoothing=0.1)
    inputs, labels = batch
    return model, model.fit(inputs, labels, batch_size=8, epochs=6, verbose=0)


def test_fit_learns_and_reports(trained: Any) -> None:
    _, history = trained
    assert set(history.history) == {"loss", "accuracy", "perplexity"}
    assert history.history["loss"][-1] < history.history["loss"][0]
    assert np.isfinite(history.history["perplexity"]).all()


def test_the_optimizer_is_that_of_the_paper(trained: Any) -> None:
    optimizer = trained[0].optimizer
    assert (optimizer.beta_1, optimizer.beta_2, optimizer.epsilon) == (0.9, 0.98, 1e-9)
    assert trained[0].loss.label_smoothing == 0.1


def test_evaluate_is_the_loss_over_real_tokens(trained: Any, batch: Any) -> None:
    model, (inputs, labels) = trained[0], batch
    logits = ops.convert_to_numpy(model(inputs))
    expected = float(MaskedCrossentropy(0.1)(labels, logits))
    results = model.evaluate(inputs, labels, batch_size=8, verbose=0, return_dict=True)
    assert results["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_a_loaded_model_continues_as_if_never_saved(trained: Any, batch: Any, tmp_path: Path) -> None:
    model, (inputs, labels) = trained[0], batch
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    assert int(restored.optimizer.iterations) == int(model.optimizer.iterations) == 6
    for each in (model, restored):
        each.fit(inputs, labels, batch_size=8, epochs=2, shuffle=False, verbose=0)
    assert float(restored.optimizer.learning_rate) == float(model.optimizer.learning_rate)
    # Not the weights: the key bias has no influence, so Adam moves it by rounding errors.
    logits, restored_logits = (ops.convert_to_numpy(each(inputs)) for each in (model, restored))
    np.testing.assert_allclose(restored_logits, logits, atol=1e-4)


def compiled(kind: str = "float32", **options: Any) -> keras.Model:
    dtype = keras.DTypePolicy(kind)
    model = kt.CausalLM(9, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=5, dtype=dtype)
    compile_model(model, 0.1, **options)
    return model


def test_without_options_there_are_none() -> None:
    optimizer = compiled().optimizer
    assert (optimizer.use_ema, optimizer.global_clipnorm) == (False, None)
    assert optimizer.gradient_accumulation_steps is None


def test_options_reach_the_optimizer_and_the_loss() -> None:
    model = compiled(clip_norm=0.5, ema_momentum=0.75, gradient_accumulation_steps=3, r_drop=5.0)
    optimizer, loss = model.optimizer, model.loss
    assert (optimizer.global_clipnorm, optimizer.gradient_accumulation_steps) == (0.5, 3)
    assert (optimizer.use_ema, optimizer.ema_momentum) == (True, 0.75)
    assert isinstance(loss, RDropCrossentropy)
    assert (loss.weight, loss.label_smoothing, loss.normalize) == (5.0, 0.1, True)


def test_one_step_of_accumulation_is_none() -> None:
    model = compiled(gradient_accumulation_steps=1)
    assert model.optimizer.gradient_accumulation_steps is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mixed_float16", "mixed_bfloat16"])
def test_low_precision_trains_float32_weights(kind: str) -> None:
    if kind == "mixed_float16" and keras.backend.backend() == "jax":
        pytest.skip("JAX has no products of float16 with sums in float32 on a CPU")
    model, labels = compiled(kind, r_drop=1.0, ema_momentum=0.5), np.array([[5, 2, 6, 0], [1, 3, 0, 0]])
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer) == (kind == "mixed_float16")
    assert np.isfinite(model.train_on_batch(labels, labels)).all()
    assert {weight.dtype for weight in model.trainable_weights} == {"float32"}
    assert int(model.optimizer.iterations) == 1


@pytest.mark.slow
def test_the_loss_in_bfloat16_is_that_of_float32_to_one_percent() -> None:
    answers = np.random.default_rng(0).integers(4, 40, (4096, 9), dtype="int32")
    starts = np.full_like(answers[:, :1], 2)
    inputs = {
        "encoder_token_ids": answers[:, ::-1],
        "decoder_token_ids": np.concatenate([starts, answers[:, :-1]], axis=1),
    }
    sizes = {"num_layers": 1, "hidden_dim": 64, "num_heads": 4, "intermediate_dim": 128}
    curves = []
    for policy in ("float32", "mixed_bfloat16"):
        keras.utils.set_random_seed(0)
        model = kt.Transformer(40, 40, **sizes, norm_first=True, dtype=keras.DTypePolicy(policy))
        compile_model(model, 2e-3)
        history = model.fit(inputs, answers, batch_size=64, epochs=5, shuffle=False, verbose=0).history
        curves.append(history["loss"])
    assert curves[0][-1] < 0.4 * curves[0][0]
    np.testing.assert_allclose(curves[1], curves[0], rtol=0.01)


def test_r_drop_needs_a_second_pass() -> None:
    model = keras.Sequential([keras.Input((5,), dtype="int32"), keras.layers.Embedding(7, 7)])
    message = r"a model of this package\. Received: r_drop=5\.0, a model of class Sequential\."
    with pytest.raises(ValueError, match=message):
        compile_model(model, 0.1, r_drop=5.0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"learning_rate": 0.0},
            ValueError,
            r"`learning_rate` must be above zero and finite\. Received: .*=0\.0",
        ),
        ({"clip_norm": -1.0}, ValueError, r"`clip_norm` must be above zero"),
        ({"gradient_accumulation_steps": 0}, ValueError, r"`gradient_accumulation_steps` must be above zero"),
        ({"gradient_accumulation_steps": 1.5}, TypeError, r"must be an integer"),
    ],
)
def test_numbers_out_of_their_range(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        compile_model(keras.Sequential(), **{"learning_rate": 0.1, **options})


def test_a_rate_may_be_of_numpy_and_another_label_padding() -> None:
    model = keras.Sequential([keras.Input((None,), dtype="int32"), keras.layers.Embedding(7, 7)])
    compile_model(model, np.float32(0.5), pad_id=-100)
    labels = np.array([[5, 0, -100], [3, -100, -100]], "int32")
    model.test_on_batch(np.maximum(labels, 0), labels)
    assert model.loss.pad_id == -100
    [metrics] = [metric.metrics for metric in model.metrics if hasattr(metric, "metrics")]
    assert [(metric.pad_id, int(metric.num_tokens)) for metric in metrics] == [(-100, 3)] * 2


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("float32", None, 0.0),
        ("mixed_bfloat16", None, 1e-4),
        ("mixed_bfloat16", 0.0, 0.0),
        ("float32", 0.5, 0.5),
    ],
)
def test_half_precision_keeps_logits_small(kind: str, given: float | None, expected: float) -> None:
    assert compiled(kind, z_loss=given).loss.z_loss == expected
    assert compiled(kind, z_loss=given, r_drop=1.0).loss.z_loss == expected
