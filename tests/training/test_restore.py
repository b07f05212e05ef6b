"""Reading checkpoints: which one is taken, what is refused, and means of several."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from helpers import array
from keras_transformer.errors import InputError
from keras_transformer.training import Checkpoint, average_weights, compile_model, load_model

RunEpochs = Callable[[Checkpoint, keras.Model, list[float]], None]
SIZES: dict[str, Any] = {"num_layers": 1, "hidden_dim": 6, "num_heads": 2, "intermediate_dim": 5}
IDS = {"encoder_token_ids": np.array([[5, 3, 4]]), "decoder_token_ids": np.array([[2, 6]])}


def flip_one_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.fixture
def save_numbered(run_epochs: RunEpochs, model: keras.Model) -> Callable[..., None]:
    """Save an epoch for each value of `val_loss`; the weights of an epoch are its number."""

    def save(directory: Path, values: list[float], **options: Any) -> None:
        checkpoint = Checkpoint(directory, **options)
        if checkpoint.epoch:
            checkpoint.restore(model)
        for value in values:
            for weight in model.weights:
                weight.assign(array(weight) * 0 + checkpoint.epoch + 1)
            run_epochs(checkpoint, model, [value])

    return save


def number(model: keras.Model) -> float:
    """The epoch whose weights a model has."""
    values = np.concatenate([array(weight).ravel() for weight in model.weights])
    assert np.unique(values).size == 1
    return float(values[0])


def path_of(directory: Path, epoch: int) -> Path:
    return directory / "checkpoints" / f"epoch-{epoch:04d}.keras"


def test_the_newest_goes_on_and_the_best_is_used(
    save_numbered: Callable[..., None], model: keras.Model, tmp_path: Path
) -> None:
    save_numbered(tmp_path, [2.0, 1.0, 3.0])
    checkpoint = Checkpoint(tmp_path)
    assert number(checkpoint.load_model()) == 3
    assert number(load_model(tmp_path)) == 2
    checkpoint.restore(model)
    assert number(model) == 3
    checkpoint.restore_result(model)
    assert number(model) == 2


def test_a_new_run_has_no_checkpoint(model: keras.Model, tmp_path: Path) -> None:
    before = array(model.weights[0]).copy()
    checkpoint = Checkpoint(tmp_path / "absent")
    checkpoint.restore(model)
    np.testing.assert_array_equal(array(model.weights[0]), before)
    assert (checkpoint.epoch, checkpoint.best_epoch, checkpoint.history) == (0, 0, {})
    for load in (checkpoint.load_model, lambda: load_model(tmp_path)):
        with pytest.raises(InputError, match=r"checkpoints holds no checkpoint\."):
            load()
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("damage", [flip_one_bit, Path.unlink])
def test_a_damaged_checkpoint_costs_an_epoch(
    damage: Callable[[Path], None], save_numbered: Callable[..., None], tmp_path: Path
) -> None:
    save_numbered(tmp_path, [3.0, 2.0, 1.0])
    damage(path_of(tmp_path, 3))
    message = r"epoch-0003\.keras is (damaged: its SHA|missing).* epoch-0002\.keras is used instead\."
    with pytest.warns(UserWarning, match=message):
        checkpoint = Checkpoint(tmp_path)
    assert (checkpoint.epoch, checkpoint.best_epoch) == (2, 2)
    assert checkpoint.history == {"loss": [6.0, 4.0], "val_loss": [3.0, 2.0]}
    assert number(checkpoint.load_model()) == 2
    with pytest.warns(UserWarning, match=message):
        assert number(load_model(tmp_path)) == 2
    with pytest.warns(UserWarning, match=message):
        save_numbered(tmp_path, [1.5, 4.0])
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.history["val_loss"] == [3.0, 2.0, 1.5, 4.0]
    assert checkpoint.best_epoch == 3


def test_the_next_best_takes_the_place_of_a_damaged_best_one(
    save_numbered: Callable[..., None], tmp_path: Path
) -> None:
    save_numbered(tmp_path, [1.0, 2.0, 3.0])
    flip_one_bit(path_of(tmp_path, 1))
    assert Checkpoint(tmp_path).epoch == 3
    with pytest.warns(UserWarning, match=r"epoch-0001\.keras is damaged.* epoch-0002\.keras is used"):
        assert number(load_model(tmp_path)) == 2


def test_no_whole_checkpoint_is_an_error(save_numbered: Callable[..., None], tmp_path: Path) -> None:
    save_numbered(tmp_path, [3.0, 2.0])
    for path in tmp_path.glob("checkpoints/*.keras"):
        flip_one_bit(path)
    message = r"epoch-0002\.keras is damaged: .* [0-9a-f]{16}…, as state\.json says\. Received: [0-9a-f]{16}…"
    with pytest.raises(InputError, match=message):
        Checkpoint(tmp_path)


def test_a_run_averages_its_last_epochs(
    save_numbered: Callable[..., None], model: keras.Model, tmp_path: Path
) -> None:
    save_numbered(tmp_path, [1.0, 2.0, 3.0, 4.0], keep=3)
    assert number(load_model(tmp_path, average_last=3)) == 3
    assert number(load_model(tmp_path, average_last=2)) == 3.5
    Checkpoint(tmp_path).restore_result(model, average_last=3)
    assert number(model) == 3
    save_numbered(tmp_path / "short", [2.0, 1.0], keep=5)
    assert number(load_model(tmp_path / "short", average_last=5)) == 1.5
    path_of(tmp_path, 3).write_bytes(b"half")
    with pytest.warns(UserWarning, match=r"epoch-0003\.keras is damaged.* It is left out of the average"):
        assert number(load_model(tmp_path, average_last=3)) == 3  # of 2 and 4


def small_transformer(**options: object) -> kt.Transformer:
    model = kt.Transformer(12, 12, **{**SIZES, "dropout": 0.1, **options})
    compile_model(model, 0.1)
    model.optimizer.build(model.trainable_variables)
    return model


@pytest.mark.parametrize("before", [{"activation": "relu"}, {"num_heads": 2, "dropout": 0.1}])
def test_a_model_of_other_options_is_refused_by_their_names(
    run_epochs: RunEpochs, before: dict[str, object], tmp_path: Path
) -> None:
    after = {"relu": "gelu", 2: 3, 0.1: 0.5}
    run_epochs(Checkpoint(tmp_path), small_transformer(**before), [1.0])
    Checkpoint(tmp_path).restore(small_transformer(name="renamed"))
    named = ", ".join(f"{name}={after[value]!r} after {value!r}" for name, value in before.items())
    other = small_transformer(**{name: after[value] for name, value in before.items()})
    with pytest.raises(InputError, match=re.escape(f"Received: {named}.")):
        Checkpoint(tmp_path).restore(other)


def test_a_smaller_model_or_another_optimizer_does_not_take_the_weights(
    run_epochs: RunEpochs, tmp_path: Path
) -> None:
    def make(num_layers: int, optimizer: Any = keras.optimizers.SGD) -> keras.Model:
        layers = [keras.layers.Dense(2, name=f"dense_{number}") for number in range(num_layers)]
        model = keras.Sequential([keras.Input((2,)), *layers])
        model.compile(optimizer(0.1), loss="mse")
        return model

    run_epochs(Checkpoint(tmp_path), make(2), [1.0])
    Checkpoint(tmp_path).restore(make(2))
    with pytest.raises(InputError, match=r"Received: num_parameters=6 after 12\."):
        Checkpoint(tmp_path).restore(make(1))
    with pytest.raises(InputError, match=r"Received: optimizer='Lion' after 'SGD'\."):
        Checkpoint(tmp_path).restore(make(2, keras.optimizers.Lion))


def test_another_number_of_seed_generators_is_refused(run_epochs: RunEpochs, tmp_path: Path) -> None:
    def make(num_dropouts: int) -> keras.Model:
        layers = [keras.layers.Dropout(0.5) for _ in range(num_dropouts)]
        model = keras.Sequential([keras.Input((2,)), *layers, keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), loss="mse")
        return model

    run_epochs(Checkpoint(tmp_path), make(1), [1.0])
    with pytest.raises(InputError, match=r"the model's 2 seed generators\. Received: the states of 1\."):
        Checkpoint(tmp_path).restore(make(2))


def test_a_file_is_read_without_custom_objects(tmp_path: Path) -> None:
    model = kt.Transformer(7, 5, **SIZES)
    model.save(tmp_path / "model.keras")
    assert load_model(tmp_path / "model.keras").get_config() == model.get_config()


@pytest.mark.parametrize("content", [None, b"", b"PK half", b"\x00" * 1000])
def test_a_damaged_file_is_named(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"model\.keras cannot be read as a Keras model: ") as caught:
        load_model(path)
    assert "\n" not in str(caught.value)


def make_model(seed: int, **options: Any) -> kt.Transformer:
    model = kt.Transformer(7, 11, **{**SIZES, **options})
    generator = np.random.default_rng(seed)
    model.set_weights([generator.normal(size=weight.shape) for weight in model.weights])
    return model


@pytest.fixture(scope="module")
def models() -> list[kt.Transformer]:
    return [make_model(seed) for seed in range(3)]


@pytest.fixture(scope="module")
def paths(models: list[kt.Transformer], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directory = tmp_path_factory.mktemp("models")
    paths = [directory / f"{number}.keras" for number in range(3)]
    for model, path in zip(models, paths, strict=True):
        model.save(path)
    return paths


def means(models: list[kt.Transformer]) -> list[np.ndarray]:
    columns = zip(*(model.get_weights() for model in models), strict=True)
    return [np.mean([np.asarray(weight, "float64") for weight in column], axis=0) for column in columns]


@pytest.mark.slow
def test_each_weight_is_the_mean_of_files_and_models(models: list[kt.Transformer], paths: list[Path]) -> None:
    before = [weight.copy() for model in models for weight in model.get_weights()]
    for sources in (paths, [str(paths[0]), *models[1:]]):
        averaged = average_weights(sources)
        assert isinstance(averaged, kt.Transformer)
        assert averaged is not models[2]
        for weight, mean in zip(averaged.get_weights(), means(models), strict=True):
            np.testing.assert_array_equal(weight, mean.astype("float32"))
    for old, new in zip(before, [weight for model in models for weight in model.get_weights()], strict=True):
        np.testing.assert_array_equal(old, new)


def test_the_mean_of_one_is_itself(models: list[kt.Transformer], paths: list[Path]) -> None:
    for alone in (paths[:1], models[:1]):
        received = array(average_weights(alone)(IDS))
        np.testing.assert_allclose(received, array(models[0](IDS)), atol=1e-6)


def test_sums_do_not_lose_digits() -> None:
    # In float32, 2**24 + 1 is 2**24: the mean of the four would be 2**22.
    models = [keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]) for _ in range(4)]
    for model, value in zip(models, [2.0**24, 1.0, 1.0, 2.0], strict=True):
        model.set_weights([np.array([[value]]), np.zeros(1)])
    assert average_weights(models).get_weights()[0].item() == 2.0**22 + 1


@pytest.mark.slow
def test_a_compiled_model_stays_compiled(tmp_path: Path) -> None:
    model = make_model(0)
    compile_model(model, 0.01)
    model.train_on_batch(IDS, np.array([[6, 3]]))
    model.save(tmp_path / "a.keras")
    averaged = average_weights([tmp_path / "a.keras"] * 2)
    assert int(averaged.optimizer.iterations) == 1
    for weight, expected in zip(averaged.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, expected)


def test_what_cannot_be_averaged(paths: list[Path], models: list[kt.Transformer], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"at least one file or model\. Received: models=\[\]\."):
        average_weights([])
    message = r"the shape \(6, 5\)\. Received: .*kernel of shape \(6, 13\) in model 3\."
    with pytest.raises(ValueError, match=message):
        average_weights([paths[0], models[1], make_model(0, intermediate_dim=13)])
    other = make_model(0, num_decoder_layers=2)
    first, second = len(models[0].weights), len(other.weights)
    with pytest.raises(ValueError, match=rf"as the first, {first}\. Received: {second} in model 2\."):
        average_weights([models[0], other])
    with pytest.raises(InputError, match=r"absent\.keras cannot be read as a Keras model"):
        average_weights([tmp_path / "absent.keras"])
