"""The mean of checkpoints against NumPy, and what cannot be averaged."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.training import average_weights, compile_model, save_model

SIZES: dict[str, Any] = {"num_layers": 1, "hidden_dim": 6, "num_heads": 2, "intermediate_dim": 5}
IDS = {"encoder_token_ids": np.array([[5, 3, 4]]), "decoder_token_ids": np.array([[2, 6]])}


def make_model(seed: int, **options: Any) -> kt.Transformer:
    model = kt.Transformer(7, 11, **{**SIZES, **options})
    generator = np.random.default_rng(seed)
    model.set_weights([generator.normal(size=weight.shape) for weight in model.weights])
    return model


@pytest.fixture(scope="module")
def models() -> list[kt.Transformer]:
    return [make_model(seed) for seed in range(3)]


@pytest.fixture(scope="module")
def files(models: list[kt.Transformer], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directory = tmp_path_factory.mktemp("checkpoints")
    paths = [directory / f"epoch-{number}.keras" for number in range(3)]
    for model, path in zip(models, paths, strict=True):
        save_model(model, path)
    return paths


def means(models: list[kt.Transformer]) -> list[np.ndarray]:
    columns = zip(*(model.get_weights() for model in models), strict=True)
    return [np.mean([np.asarray(weight, "float64") for weight in column], axis=0) for column in columns]


def test_each_weight_is_the_mean(models: list[kt.Transformer], files: list[Path]) -> None:
    averaged = average_weights(files)
    assert isinstance(averaged, kt.Transformer)
    for weight, mean in zip(averaged.get_weights(), means(models), strict=True):
        np.testing.assert_array_equal(weight, mean.astype("float32"))


def test_models_and_files_can_be_mixed(models: list[kt.Transformer], files: list[Path]) -> None:
    before = [weight.copy() for model in models for weight in model.get_weights()]
    averaged = average_weights([str(files[0]), models[1], models[2]])
    assert averaged is not models[2]
    for weight, mean in zip(averaged.get_weights(), means(models), strict=True):
        np.testing.assert_array_equal(weight, mean.astype("float32"))
    for old, new in zip(before, [weight for model in models for weight in model.get_weights()], strict=True):
        np.testing.assert_array_equal(old, new)


def test_the_mean_of_one_is_itself(models: list[kt.Transformer], files: list[Path]) -> None:
    expected = keras.ops.convert_to_numpy(models[0](IDS))
    for alone in (files[:1], models[:1]):
        received = keras.ops.convert_to_numpy(average_weights(alone)(IDS))
        np.testing.assert_allclose(received, expected, atol=1e-6)


def test_sums_do_not_lose_digits() -> None:
    # In float32, 2**24 + 1 is 2**24: the mean of the four would be 2**22.
    models = [keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]) for _ in range(4)]
    for model, value in zip(models, [2.0**24, 1.0, 1.0, 2.0], strict=True):
        model.set_weights([np.array([[value]]), np.zeros(1)])
    assert average_weights(models).get_weights()[0].item() == 2.0**22 + 1


def test_a_compiled_model_stays_compiled(tmp_path: Path) -> None:
    model = make_model(0)
    compile_model(model, 0.01)
    labels = np.array([[6, 3]])
    model.train_on_batch(IDS, labels)
    save_model(model, tmp_path / "a.keras")
    averaged = average_weights([tmp_path / "a.keras"] * 2)
    assert int(averaged.optimizer.iterations) == 1
    for weight, expected in zip(averaged.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, expected)


def test_nothing_has_no_mean() -> None:
    with pytest.raises(ValueError, match=r"at least one file or model\. Received: models=\[\]\."):
        average_weights([])


def test_another_width_is_named(files: list[Path], models: list[kt.Transformer]) -> None:
    other = make_model(0, intermediate_dim=13)
    message = r"the shape \(6, 5\)\. Received: .*kernel of shape \(6, 13\) in model 3\."
    with pytest.raises(ValueError, match=message):
        average_weights([files[0], models[1], other])


def test_another_depth_is_named(models: list[kt.Transformer]) -> None:
    other = make_model(0, num_decoder_layers=2)
    first, second = len(models[0].weights), len(other.weights)
    message = rf"as the first, {first}\. Received: {second} in model 2; .* has no counterpart\."
    with pytest.raises(ValueError, match=message):
        average_weights([models[0], other])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.keras cannot be read as a Keras model"):
        average_weights([tmp_path / "absent.keras"])
