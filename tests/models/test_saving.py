"""A saved model is the same model: here, in a copy, and in a process that knows nothing of it."""

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer
from helpers import array
from keras_transformer import Transformer

INPUTS: dict[str, Any] = {
    "encoder_token_ids": np.array([[5, 3, 9, 2, 7], [4, 8, 6, 0, 0]]),
    "decoder_token_ids": np.array([[2, 5, 10, 3], [2, 7, 0, 0]]),
}


def made(**options: Any) -> Any:
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
    return Transformer(11, 11, **{**sizes, **options})


def reloaded(model: Any, directory: Path) -> Any:
    model.save(directory / "model.keras")
    return keras.models.load_model(directory / "model.keras")


OPTIONS: dict[str, Any] = {
    "num_encoder_layers": 2,
    "dropout": 0.2,
    "attention_dropout": 0.3,
    "intermediate_dropout": 0.4,
    "activation": "gelu",
    "norm_first": True,
    "tie_output": False,
}


def test_config_is_what_was_asked_for() -> None:
    config = made(**OPTIONS, name="mine", dtype="mixed_bfloat16").get_config()
    assert {name: config[name] for name in OPTIONS} == OPTIONS
    copied = Transformer.from_config(config)
    assert copied.get_config() == config
    assert copied.name == "mine"
    assert copied.encoder.dtype_policy.name == "mixed_bfloat16"


@pytest.mark.parametrize("activation", ["relu", keras.activations.silu])
def test_config_with_any_activation(activation: Any) -> None:
    config = made(activation=activation).get_config()
    assert Transformer.from_config(config).get_config() == config


@pytest.mark.parametrize("options", [{}, OPTIONS, {"share_embeddings": True}, {"dtype": "mixed_float16"}])
def test_reloaded_model_gives_the_same_numbers(options: dict[str, Any], tmp_path: Path) -> None:
    model = made(**options)
    copied = reloaded(model, tmp_path)
    assert isinstance(copied, Transformer)
    assert copied.get_config() == model.get_config()
    assert [weight.path for weight in copied.weights] == [weight.path for weight in model.weights]
    np.testing.assert_array_equal(array(copied(INPUTS)), array(model(INPUTS)))


@pytest.mark.parametrize("tie_output", [False, True])
@pytest.mark.parametrize("share_embeddings", [False, True])
def test_sharing_and_tying_survive(share_embeddings: bool, tie_output: bool, tmp_path: Path) -> None:
    model = made(share_embeddings=share_embeddings, tie_output=tie_output)
    for each in (model, reloaded(model, tmp_path)):
        source, target = each.source_embedding.embeddings, each.target_embedding.embeddings
        assert (source is target) == share_embeddings
        projection = each.output_projection.weights
        assert (projection[0] is target) == tie_output
        tables = [
            weight for weight in each.weights if 11 in tuple(weight.shape)[:1] and weight.shape[-1] == 8
        ]
        assert len({id(weight) for weight in tables if "embedding" in weight.path}) == 2 - share_embeddings


@pytest.mark.slow
def test_a_reloaded_model_trains_on_with_its_optimizer(tmp_path: Path) -> None:
    model = made(dropout=0.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, run_eagerly=True)
    labels = INPUTS["decoder_token_ids"]
    model.train_on_batch(INPUTS, labels)
    copied = reloaded(model, tmp_path)
    for each in (model, copied):
        each.train_on_batch(INPUTS, labels)
    np.testing.assert_allclose(array(copied(INPUTS)), array(model(INPUTS)), atol=1e-6)


def test_weights_alone(tmp_path: Path) -> None:
    model, other = made(), made()
    model.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(array(other(INPUTS)), array(model(INPUTS)))


def test_a_deep_copy_stands_alone() -> None:
    model = made()
    copied = copy.deepcopy(model)
    np.testing.assert_array_equal(array(copied(INPUTS)), array(model(INPUTS)))
    copied.set_weights([0 * weight for weight in copied.get_weights()])
    assert np.any(array(model(INPUTS)))


ANSWER = """
import sys
{imports}
import numpy as np
model = keras.models.load_model(sys.argv[1])
inputs = dict(np.load(sys.argv[2]))
np.save(sys.argv[3], keras.ops.convert_to_numpy(model(inputs)))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "imports",
    [
        "import keras_transformer; import keras",
        pytest.param("import keras; import keras_transformer", marks=pytest.mark.slow),
    ],
)
def test_a_new_process_needs_no_custom_objects(imports: str, tmp_path: Path) -> None:
    model = made(norm_first=True)
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "inputs.npz", **INPUTS)
    [package] = keras_transformer.__path__
    files = [str(tmp_path / name) for name in ("model.keras", "inputs.npz", "logits.npy")]
    finished = subprocess.run(
        [sys.executable, "-c", ANSWER.format(imports=imports), *files],
        env={**os.environ, "PYTHONPATH": str(Path(package).parent)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    np.testing.assert_allclose(np.load(files[2]), array(model(INPUTS)), atol=1e-6)


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    """Other people's model around one of ours; loading builds it from inputs that Keras makes, of float32."""

    def __init__(self, part: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.part = part
        sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
        self.inner = made() if part == "encode" else getattr(keras_transformer, part)(11, **sizes)
        self.head = keras.layers.Dense(2)

    def call(self, token_ids: Any) -> Any:
        inner: Any = self.inner
        return self.head(inner.encode(token_ids)[0] if self.part == "encode" else inner(token_ids))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "part": self.part}


@pytest.mark.parametrize("part", ["EncoderModel", "encode", "CausalLM"])
def test_the_model_around_it_is_loaded_with_its_weights(part: str, tmp_path: Path) -> None:
    model, token_ids = Subclassed(part), INPUTS["encoder_token_ids"]
    outputs = array(model(token_ids))
    np.testing.assert_array_equal(array(reloaded(model, tmp_path)(token_ids)), outputs)
    inner: Any = model.inner if part != "encode" else keras_transformer.EncoderModel(11, num_layers=1)
    both = keras.Sequential([inner, keras.layers.LSTM(3)])
    assert tuple(both(token_ids).shape) == (2, 3)
