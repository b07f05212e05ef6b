"""Every model: config, presets, saving, precision, one step of training."""

import contextlib
import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from helpers import GreedySearch, array, refused_in_one_way_only
from keras_transformer import CausalLM, EncoderModel, Transformer
from keras_transformer.decoding import generate
from keras_transformer.training import MaskedCrossentropy, load_model

SIZES: dict[str, Any] = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
IDS = np.array([[2, 5, 11, 3], [2, 12, 0, 0]], "int32")
FRAMES = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], bool)
SPEECH = {"encoder_features": FRAMES, "encoder_padding_mask": MASK, "decoder_token_ids": IDS}
# Name -> how the model is made, what it reads, labels.
CASES: dict[str, tuple[Any, dict[str, Any], Any, Any]] = {
    "causal": (CausalLM, {"vocabulary_size": 13}, IDS, IDS),
    "masked_tokens": (EncoderModel, {"vocabulary_size": 13, "num_outputs": 13, "tie_output": True}, IDS, IDS),
    "classes": (
        EncoderModel,
        {"feature_dim": 3, "num_outputs": 7, "pooling": "mean"},
        {"features": FRAMES, "padding_mask": MASK},
        np.array([3, 5]),
    ),
    "speech": (
        Transformer,
        {"source_vocabulary_size": None, "target_vocabulary_size": 13, "encoder_feature_dim": 3},
        SPEECH,
        IDS,
    ),
}
every_model = pytest.mark.parametrize("name", CASES)


def made(name: str, /, **options: Any) -> Any:
    kind, own, _, _ = CASES[name]
    return kind(**{**SIZES, **own, **options})


@every_model
def test_saved_and_loaded(name: str, tmp_path: Path) -> None:
    model, inputs = made(name, norm_first=True, activation="gelu", name="mine"), CASES[name][2]
    model.save(tmp_path / "model.keras")
    loaded: Any = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(model)
    assert loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(array(loaded(inputs)), array(model(inputs)))


@every_model
def test_config_as_json(name: str) -> None:
    model = made(name, activation=keras.activations.silu, name="mine", dtype="mixed_bfloat16")
    config = json.loads(json.dumps(model.get_config()))
    copied = type(model).from_config(config)
    assert copied.get_config() == model.get_config() == config
    assert (copied.name, copied.position_encoding.dtype_policy.name) == ("mine", "mixed_bfloat16")


@every_model
@pytest.mark.parametrize(("policy", "tolerance"), [("mixed_float16", 0.02), ("mixed_bfloat16", 0.15)])
def test_half_precision_is_close_to_float32(name: str, policy: str, tolerance: float) -> None:
    model, half, inputs = made(name), made(name, dtype=policy), CASES[name][2]
    half.set_weights(model.get_weights())
    outputs = half(inputs)
    assert keras.backend.standardize_dtype(outputs.dtype) == policy.removeprefix("mixed_")
    difference = array(keras.ops.cast(outputs, "float32")) - array(model(inputs))
    assert np.abs(difference).max() < tolerance


@pytest.mark.parametrize(
    "name", ["causal", *(pytest.param(name, marks=pytest.mark.slow) for name in CASES if name != "causal")]
)
def test_fit_lowers_the_loss(name: str) -> None:
    model, (_, _, inputs, labels) = made(name, dropout=0.0), CASES[name]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss)
    history = model.fit(inputs, labels, epochs=3, verbose=0).history["loss"]
    assert history[2] < history[0]


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="what TensorFlow traces")
def test_a_step_of_training_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, steps = made("causal"), []
    train_step = model.train_step
    monkeypatch.setattr(model, "train_step", lambda *batch: [train_step(*batch), steps.append(batch)][0])
    model.compile(keras.optimizers.Adam(0.01), MaskedCrossentropy())
    model.fit(IDS, IDS, epochs=2, verbose=0)
    assert len(steps) == 1


def test_frozen_parts_are_saved(tmp_path: Path) -> None:
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
    model = Transformer(11, 13, **sizes)
    model.encoder.trainable = False
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert not loaded.encoder.trainable
    assert loaded.decoder.trainable
    assert len(loaded.trainable_weights) == len(model.trainable_weights) < len(model.weights)


@every_model
def test_what_was_trained_in_mixed_precision_answers_in_float32(name: str) -> None:
    model, inputs = made(name, dtype="mixed_bfloat16", name="mine"), CASES[name][2]
    model.position_encoding.trainable = False
    precise = model.with_dtype("float32")
    assert {layer.compute_dtype for layer in precise._flatten_layers()} == {"float32"}
    assert precise.get_config() == {**model.get_config(), "dtype": precise.get_config()["dtype"]}
    expected = type(model).from_config(precise.get_config())
    expected.set_weights(model.get_weights())
    np.testing.assert_array_equal(array(precise(inputs)), array(expected(inputs)))
    np.testing.assert_allclose(array(precise(inputs)), array(model(inputs)).astype("float32"), atol=0.1)


@pytest.mark.slow
def test_frozen_layers_inside_the_parts_are_saved(tmp_path: Path) -> None:
    sizes = {"num_layers": 2, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
    model = Transformer(11, 13, **sizes)
    model.encoder.layers[0].trainable = False
    model.save(tmp_path / "model.keras")
    for other in (
        keras.models.load_model(tmp_path / "model.keras"),
        Transformer.from_config(model.get_config()),
        model.with_dtype("mixed_bfloat16"),
    ):
        assert [weight.trainable for weight in other.weights] == [
            weight.trainable for weight in model.weights
        ]
        assert len(other.trainable_weights) == len(model.trainable_weights) < len(model.weights)


@pytest.mark.parametrize("by", ["attribute", "constructor", "layer"])
def test_a_frozen_model_that_was_read_can_be_trained_again(by: str, tmp_path: Path) -> None:
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
    model = Transformer(11, 13, **sizes, **({"trainable": False} if by == "constructor" else {}))
    layer = model.decoder.layers[0].feed_forward if by == "layer" else model
    layer.trainable = False
    num_frozen = len(layer.weights)
    model.save(tmp_path / "model.keras")
    for other in (
        keras.models.load_model(tmp_path / "model.keras"),
        Transformer.from_config(model.get_config()),
    ):
        assert len(other.trainable_weights) == len(model.weights) - num_frozen
        (other.decoder.layers[0].feed_forward if by == "layer" else other).trainable = True
        assert len(other.trainable_weights) == len(model.weights)


class Comparing(keras.losses.MeanSquaredError):
    """Adds 100 to the mean of two passes."""

    def add_passes(self, model: Any, loss: Any, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> Any:
        second_y_pred = model(x, training=True)
        second_loss = keras.Model.compute_loss(model, x, y, second_y_pred, sample_weight)
        return (loss + second_loss) / 2 + 100.0 + keras.ops.mean(keras.ops.abs(y_pred - second_y_pred))


@pytest.mark.parametrize(
    "name", ["causal", *(pytest.param(name, marks=pytest.mark.slow) for name in ("classes", "speech"))]
)
def test_a_loss_that_compares_passes_sees_two_in_training(name: str) -> None:
    model, inputs = made(name, dropout=0.0), CASES[name][2]
    outputs = array(model(inputs))
    labels = np.zeros_like(outputs)
    plain = float(np.mean(np.square(outputs)))
    for loss, in_training in ((Comparing(), 100 + plain), ("mse", plain), (["mse"], plain)):
        model.compile(keras.optimizers.SGD(0.0), loss)
        assert model.train_on_batch(inputs, labels) == pytest.approx(in_training, rel=1e-5)
        assert model.test_on_batch(inputs, labels) == pytest.approx(plain, rel=1e-5)
    model.compile(keras.optimizers.SGD(0.0), [Comparing()])
    with pytest.raises(ValueError, match="must be given alone, not in a list"):
        model.train_on_batch(inputs, labels)


def test_regularizers_count_once_in_two_passes() -> None:
    model = made("classes", dropout=0.0)
    inputs, labels = CASES["classes"][2], np.zeros((2, 7))
    model.output_projection.kernel.regularizer = keras.regularizers.L2(7.0)
    model.compile(keras.optimizers.SGD(0.0), Comparing())
    plain = float(np.mean(np.square(array(model(inputs)))))
    penalty = 7.0 * float(np.sum(np.square(array(model.output_projection.kernel))))
    assert model.train_on_batch(inputs, labels) == pytest.approx(100 + plain + penalty, rel=1e-5)


def test_weights_of_classes_are_refused_where_labels_are_tokens() -> None:
    model = CausalLM(5, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8)
    model.compile("sgd", MaskedCrossentropy())
    ids = np.ones((2, 3), "int32")
    for train in (model.fit, model.train_on_batch):
        with pytest.raises(
            ValueError, match=r"by sample_weight=np\.vectorize\(class_weight\.get\)\(labels\)"
        ):
            train(ids, ids, class_weight=dict.fromkeys(range(5), 0.0))
    weights = np.vectorize({0: 0.0, 1: 2.0}.get)(ids)
    model.fit(ids, ids, sample_weight=weights, verbose=0)


def test_weights_of_classes_weight_the_examples_of_a_classifier() -> None:
    options = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 8, "dropout": 0.0}
    model = EncoderModel(5, num_outputs=3, pooling="mean", **options)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    ids, labels = np.ones((2, 3), "int32"), np.array([1, 2])
    history = model.fit(ids, labels, class_weight={1: 0.0, 2: 0.0}, verbose=0)
    assert history.history["loss"] == [0.0]


PRETRAINED: dict[str, Any] = {
    "head_dim": 6,
    "use_bias": False,
    "final_norm": True,
    "scale_embeddings": False,
    "normalize_embeddings": True,
    "activation": "gelu_tanh",
    "positions": "sinusoidal_concatenated",
}


@every_model
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param(
            {"positions": "relative", "gated": True, "num_key_value_heads": 1}, marks=pytest.mark.slow
        ),
        PRETRAINED,
    ],
)
def test_every_kernel_is_quantized_and_saved(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    model, inputs = made(name, **options), CASES[name][2]
    before = array(model(inputs))
    model.quantize("int8")
    kernels = [weight for weight in model.weights if weight.name == "kernel"]
    assert {keras.backend.standardize_dtype(weight.dtype) for weight in kernels} == {"int8"}
    after = array(model(inputs))
    assert 0 < np.abs(after - before).max() < 0.1 * np.abs(before).max()
    model.save(tmp_path / "model.keras")
    loaded = load_model(tmp_path / "model.keras")
    assert loaded.is_quantized
    assert loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(array(loaded(inputs)), after)
    copied = type(model).from_config(json.loads(json.dumps(model.get_config())))
    copied.set_weights(model.get_weights())
    np.testing.assert_array_equal(array(copied(inputs)), after)


def test_a_quantized_model_has_one_precision() -> None:
    model = made("causal")
    assert not model.is_quantized
    model.quantize("int8")
    assert model.is_quantized
    with pytest.raises(ValueError, match=r"A quantized model has one precision. Received: dtype='float32'"):
        model.with_dtype("float32")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["int4", "float8"])
def test_the_other_quantizations_of_keras(mode: str, tmp_path: Path) -> None:
    model, inputs = made("speech"), CASES["speech"][2]
    model.quantize(mode)
    projections = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.EinsumDense)]
    assert {layer.quantization_mode for layer in projections} == {mode}
    after = array(model(inputs))
    model.save(tmp_path / "model.keras")
    loaded = load_model(tmp_path / "model.keras")
    assert loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(array(loaded(inputs)), after)
    results = [generate(each, inputs, GreedySearch(), 4) for each in (model, loaded)]
    np.testing.assert_array_equal(array(results[0].token_ids), array(results[1].token_ids))
    assert np.isfinite(array(results[0].scores)).all()


def test_a_quantization_that_needs_data_is_refused() -> None:
    for wrong in ("gptq", "int3"):
        with pytest.raises(ValueError, match=r"(?i)gptq|int3"):
            made("causal").quantize(wrong)
    model = made("causal")
    model.quantize(config=keras.quantizers.Int8QuantizationConfig())
    assert model.is_quantized


@every_model
def test_what_an_eager_call_refuses_is_refused_symbolically(name: str) -> None:
    model, given = made(name), CASES[name][2]
    if isinstance(given, dict):
        assert refused_in_one_way_only(model, given) == []
    else:
        assert refused_in_one_way_only(lambda inputs: model(inputs["ids"]), {"ids": given}) == []


@every_model
def test_plain_compile_scales_the_loss_in_float16(name: str) -> None:
    """Keras does so by the policy of the model, which is global in the guides of Keras."""
    model, reference = made(name, dtype="mixed_float16"), made(name)
    for each in (model, reference):
        each.compile("adam", "mse")
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert isinstance(reference.optimizer, keras.optimizers.Adam)
    assert type(model).from_config(model.get_config()).dtype_policy.name == "mixed_float16"


@pytest.mark.slow
def test_activations_that_are_computed_again_change_nothing() -> None:
    losses = []
    for mode in (None, "activations"):
        keras.utils.set_random_seed(0)
        with keras.RematScope(mode=mode) if mode else contextlib.nullcontext():
            model = made("causal")
        model.compile("adam", MaskedCrossentropy(), jit_compile=False)
        losses.append(model.fit(IDS, IDS, epochs=2, shuffle=False, verbose=0).history["loss"])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
