"""LoRA: small factors of chosen kernels, which every way out of a model keeps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from helpers import array, draw
from keras_transformer import CausalLM, EncoderModel, Transformer

SIZES: dict[str, Any] = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
IDS = np.array([[2, 5, 11, 3], [2, 12, 0, 0]], "int32")
# Name -> how the model is made, what it reads.
MODELS: dict[str, tuple[Callable[..., Any], Any]] = {
    "transformer": (
        lambda **options: Transformer(13, 13, **options),
        {"encoder_token_ids": IDS, "decoder_token_ids": IDS},
    ),
    "causal": (lambda **options: CausalLM(13, **options), IDS),
    "encoder": (lambda **options: EncoderModel(13, 3, **options), IDS),
}
every_model = pytest.mark.parametrize("name", MODELS)
OPTIONS: dict[str, Any] = {"gated": True, "num_key_value_heads": 1, "norm_first": True}


def adapted(name: str, targets: Any = ("query", "value"), rank: int = 2, **options: Any) -> Any:
    """Make a model whose factors are not zero, with the same weights each time."""
    keras.utils.set_random_seed(0)
    model = MODELS[name][0](**SIZES, **options)
    model.enable_lora(rank, targets, alpha=3.0)
    for number, weight in enumerate(model.trainable_weights):
        weight.assign(draw(*weight.shape, seed=number))
    return model


def outputs(model: Any, name: str) -> Any:
    return array(model(MODELS[name][1]))


@every_model
def test_it_begins_with_the_same_outputs(name: str) -> None:
    model = MODELS[name][0](**SIZES)
    before = outputs(model, name)
    model.enable_lora(2)
    np.testing.assert_array_equal(outputs(model, name), before)
    assert {weight.name for weight in model.trainable_weights} == {"lora_kernel_a", "lora_kernel_b"}


@every_model
def test_factors_add_what_the_paper_says(name: str) -> None:
    model = adapted(name, ("query", "value", "feed_forward"), **OPTIONS)
    plain = MODELS[name][0](**SIZES, **OPTIONS)
    values = {weight.path: array(weight) for weight in model.weights}
    for weight in plain.weights:
        value, stem = values[weight.path], weight.path.removesuffix("kernel")
        if weight.name == "kernel" and f"{stem}lora_kernel_a" in values:
            # Hu et al. 2021, section 4.1: W + alpha / r B A
            value = value + 3.0 / 2 * values[f"{stem}lora_kernel_a"] @ values[f"{stem}lora_kernel_b"]
        weight.assign(value)
    # The two sides add the same terms in another order: up to 4.4e-5 apart for other random initial weights.
    np.testing.assert_allclose(outputs(model, name), outputs(plain, name), atol=3e-5)


@every_model
def test_every_copy_computes_the_same(name: str, tmp_path: Path) -> None:
    model = adapted(name, ("query", "feed_forward"), **OPTIONS)
    expected = outputs(model, name)
    model.save(tmp_path / "model.keras")
    loaded: Any = keras.models.load_model(tmp_path / "model.keras")
    for copy in (loaded, kt.training.load_model(str(tmp_path / "model.keras")), model.with_dtype("float32")):
        np.testing.assert_array_equal(outputs(copy, name), expected)
        trained = [[weight.path for weight in each.trainable_weights] for each in (copy, model)]
        assert trained[0] == trained[1]
    merged = model.merge_lora()
    np.testing.assert_allclose(outputs(merged, name), expected, atol=1e-5)
    assert merged.count_params() == MODELS[name][0](**SIZES, **OPTIONS).count_params()
    assert len(merged.trainable_weights) == len(merged.weights)


@pytest.mark.parametrize("first", ["quantize", "enable_lora"])
def test_factors_beside_integers(first: str, tmp_path: Path) -> None:
    model = adapted("causal") if first == "enable_lora" else CausalLM(13, **SIZES)
    exact = outputs(model, "causal")
    model.quantize("int8")
    if first == "quantize":
        model.enable_lora(2)
    np.testing.assert_allclose(outputs(model, "causal"), exact, atol=0.1)
    model.save(tmp_path / "model.keras")
    loaded: Any = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(outputs(loaded, "causal"), outputs(model, "causal"))
    with pytest.raises(ValueError, match="cannot absorb LoRA factors"):
        model.merge_lora()


def test_layers_of_kerass_own_recipe_are_saved(tmp_path: Path) -> None:
    model = CausalLM(13, dropout=0.0, **SIZES)
    for layer in model.decoder._flatten_layers():
        if isinstance(layer, keras.layers.Dense | keras.layers.EinsumDense):
            layer.enable_lora(3)
    for weight in model.weights:
        weight.trainable = weight.name.startswith("lora")
    model.compile("adam", kt.training.MaskedCrossentropy())
    model.fit(IDS, IDS, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded: Any = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(outputs(loaded, "causal"), outputs(model, "causal"))
    assert len(loaded.trainable_weights) == len(model.trainable_weights)
    # What is trained next is what would have been trained without the file.
    for each in (model, loaded):
        each.fit(IDS, IDS, verbose=0)
    np.testing.assert_allclose(outputs(loaded, "causal"), outputs(model, "causal"), atol=1e-6)


def test_files_of_weights_with_and_without_factors(tmp_path: Path) -> None:
    model, plain = adapted("causal"), CausalLM(13, **SIZES)
    expected = outputs(model, "causal")
    model.save_weights(tmp_path / "factors.weights.h5")
    plain.load_weights(tmp_path / "factors.weights.h5")
    np.testing.assert_allclose(outputs(plain, "causal"), expected, atol=1e-6)
    plain.save_weights(tmp_path / "plain.weights.h5")
    other = adapted("causal", rank=3)
    other.load_weights(tmp_path / "plain.weights.h5")
    np.testing.assert_allclose(outputs(other, "causal"), expected, atol=1e-6)
    assert all(array(weight).any() for weight in other.weights if weight.name == "lora_kernel_a")


FRAMES = {"encoder_feature_dim": 6, "source_convolutions": True}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Transformer(None, 13, tie_output=False, **FRAMES, **SIZES),
        lambda: Transformer(None, 13, encoder_feature_dim=6, **SIZES),
        lambda: EncoderModel(13, 3, pooling="first", head_activation="tanh", **SIZES),
    ],
    ids=["convolutions", "frames", "head"],
)
def test_factors_of_every_kernel_can_be_trained_after_loading(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    model = make()
    kernels = keras.layers.Dense | keras.layers.EinsumDense
    names = {layer.name for layer in model._flatten_layers() if isinstance(layer, kernels)}
    model.enable_lora(2, sorted(names))
    model.save(tmp_path / "model.keras")
    loaded: Any = keras.models.load_model(tmp_path / "model.keras")
    for weight, again in zip(model.trainable_weights, loaded.trainable_weights, strict=True):
        np.testing.assert_array_equal(array(again), array(weight))
        # Two factors of zeros would have zero gradients.
        assert array(again).any() == (again.name == "lora_kernel_a"), again.path


@pytest.mark.parametrize(
    ("targets", "parts"),
    [
        (("query",), {"encoder": 1, "decoder": 2}),
        ("cross_attention", {"decoder": 4}),
        (("cross_attention/key", "encoder"), {"encoder": 6, "decoder": 1}),
    ],
)
def test_targets_are_names_or_parts_of_paths(targets: Any, parts: dict[str, int]) -> None:
    model = Transformer(13, 13, **SIZES)
    model.enable_lora(1, targets)
    sides = [weight.path.split("/")[0] for weight in model.trainable_weights]
    assert {side: sides.count(side) // 2 for side in {*sides}} == parts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "`rank` must be above zero. Received: rank=0"),
        ({"rank": 2, "targets": ["querry"]}, r"must name layers such as .*'query'.* Received: 'querry'"),
    ],
)
def test_what_cannot_be_meant(options: dict[str, Any], message: str) -> None:
    model = CausalLM(13, **SIZES)
    with pytest.raises(ValueError, match=message):
        model.enable_lora(**options)
    assert len(model.trainable_weights) == len(model.weights)
    model.enable_lora(2)
    with pytest.raises(ValueError, match="LoRA is enabled already"):
        model.enable_lora(2)
