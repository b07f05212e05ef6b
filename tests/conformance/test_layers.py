"""What every public layer must survive; a layer that is not listed here fails a test."""

import copy
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw, refused_in_one_way_only
from keras_transformer import layers
from keras_transformer.layers.feed_forward import get_activation


@dataclass(frozen=True, kw_only=True)
class Case:
    """One layer: how it is made and called."""

    options: dict[str, Any]
    inputs: tuple[Any, ...]
    masks: dict[str, Any] = field(default_factory=dict)
    unknown: tuple[int | None, ...] | None = None
    """The shape of the output where sizes are unknown, if it is another than `(None, None, width)`."""


TARGET, SOURCE = np.array([[1] * 5, [1, 1, 1, 0, 0]]), np.array([[1] * 3, [1, 1, 0]])
X, MEMORY, IDS = draw(2, 5, 8), draw(2, 3, 7, seed=1), np.array([[4, 3, 2], [1, 5, 0]], "int32")
BLOCK = {
    "num_heads": 2,
    "head_dim": 6,
    "intermediate_dim": 11,
    "activation": "gelu_tanh",
    "gated": True,
    "use_bias": True,
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "intermediate_dropout": 0.3,
    "norm_first": True,
    "normalization": "rms",
    "layer_norm_epsilon": 1e-5,
    "num_key_value_heads": 1,
    "rematerialize": True,
    "positions": "rotary",
    "kernel_initializer": "lecun_normal",
    "bias_initializer": "random_normal",
}
MASKS = {"padding_mask": TARGET, "encoder_padding_mask": SOURCE}
CASES = {
    "Decoder": Case(
        options={**BLOCK, "num_layers": 1, "final_norm": False, "share_layers": True},
        inputs=(X, MEMORY),
        masks=MASKS,
    ),
    "DecoderLayer": Case(options=BLOCK, inputs=(X, MEMORY), masks=MASKS),
    "Dropout": Case(options={"rate": 0.1, "noise_shape": None, "seed": 5}, inputs=(X,)),
    "Encoder": Case(
        options={**BLOCK, "num_layers": 1, "final_norm": False, "share_layers": True},
        inputs=(X,),
        masks={"padding_mask": TARGET},
    ),
    "EncoderLayer": Case(options=BLOCK, inputs=(X,), masks={"padding_mask": TARGET}),
    "FeedForward": Case(
        options={
            "intermediate_dim": 11,
            "activation": "gelu",
            "gated": True,
            "use_bias": True,
            "dropout": 0.1,
            "kernel_initializer": "lecun_normal",
            "bias_initializer": "random_normal",
        },
        inputs=(X,),
    ),
    "LearnedPositionEncoding": Case(options={"max_length": 7, "initializer": "orthogonal"}, inputs=(X,)),
    "MultiHeadAttention": Case(
        options={
            "num_heads": 6,
            "key_dim": 5,
            "value_dim": 7,
            "dropout": 0.1,
            "use_bias": True,
            "output_shape": 13,
            "attention_axes": 1,
            "sliding_window": 3,
            "flash_attention": False,
            "kernel_initializer": "he_normal",
            "bias_initializer": "ones",
            "kernel_regularizer": "l2",
            "bias_regularizer": "l1",
            "activity_regularizer": "l2",
            "kernel_constraint": "max_norm",
            "bias_constraint": "non_neg",
            "use_gate": True,
            "seed": 5,
            "num_key_value_heads": 2,
            "positions": "relative",
        },
        inputs=(X, MEMORY, draw(2, 3, 11, seed=2)),
        masks={"padding_mask": SOURCE},
    ),
    "OutputProjection": Case(
        options={"vocabulary_size": 13, "embedding": None, "use_bias": True}, inputs=(X,)
    ),
    "PositionEncoding": Case(options={"max_wavelength": 500.0, "layout": "concatenated"}, inputs=(X,)),
    "RotaryEmbedding": Case(
        options={"max_wavelength": 500.0, "scaling_factor": 2.0},
        inputs=(draw(2, 5, 3, 4),),
        unknown=(None, None, 3, 4),
    ),
    "TokenEmbedding": Case(
        options={"vocabulary_size": 11, "hidden_dim": 7, "scale": False, "mask_zero": False}, inputs=(IDS,)
    ),
}
# Options that Keras looks up by name.
LOOKED_UP = {
    "activation": SimpleNamespace(get=get_activation),
    **dict.fromkeys(("initializer", "kernel_initializer", "bias_initializer"), keras.initializers),
    **{f"{name}_regularizer": keras.regularizers for name in ("kernel", "bias", "activity")},
    **{f"{name}_constraint": keras.constraints for name in ("kernel", "bias")},
}

SEVERAL = {name: {"num_layers": 2, "share_layers": False} for name in ("Encoder", "Decoder")}

WITHOUT_WEIGHTS = {"Dropout", "PositionEncoding", "RotaryEmbedding"}

every_layer = pytest.mark.parametrize("name", CASES)


def class_of(name: str) -> Any:
    return getattr(layers, name)


def make(layer: str, **options: Any) -> Any:
    return class_of(layer)(**{**CASES[layer].options, **options})


def call(layer: Any, name: str, **options: Any) -> Any:
    return layer(*CASES[name].inputs, **CASES[name].masks, **options)


def numbers(outputs: Any) -> Any:
    return array(keras.ops.cast(outputs, "float32"))


def test_every_public_layer_is_listed() -> None:
    classes = {name: class_of(name) for name in layers.__all__ if inspect.isclass(class_of(name))}
    found = {name for name, cls in classes.items() if issubclass(cls, keras.layers.Layer)}
    # `Dense` has the options of Keras's, which Keras tests.
    assert found - {"Dense"} == set(CASES)


@every_layer
def test_every_option_is_listed(name: str) -> None:
    ours = (keras.layers.Dropout.__module__, "keras_transformer")
    bases = [base for base in class_of(name).__mro__ if base.__module__.startswith(ours)]
    parameters = {key: value for base in bases for key, value in signature(base).items()}
    known = {key for key, value in parameters.items() if value.kind is not value.VAR_KEYWORD}
    if "options" in parameters:
        known |= {field.name for field in fields(layers.LayerConfig)}
    assert set(CASES[name].options) == known - {"self", "args"}


def signature(cls: type) -> Any:
    return inspect.signature(cls.__dict__.get("__init__", lambda: None)).parameters


@every_layer
def test_every_option_is_an_attribute_that_building_leaves_alone(name: str) -> None:
    layer = make(name)
    call(layer, name)
    for option, value in CASES[name].options.items():
        if option == "output_shape":  # Keras would print this attribute as the shape of the output
            assert not hasattr(layer, option)
            continue
        attribute = getattr(layer, option)
        if option in LOOKED_UP:
            assert type(attribute) is type(LOOKED_UP[option].get(value)), option
        else:
            assert attribute == value, option


@every_layer
def test_config_round_trip(name: str) -> None:
    layer = make(name, name="mine", dtype="mixed_bfloat16")
    before = layer.get_config()
    serialized = keras.saving.serialize_keras_object(layer)
    assert json.loads(json.dumps(serialized)) == serialized
    assert set(CASES[name].options) <= set(before)
    call(layer, name)
    assert layer.get_config() == before, "building changed the config"
    for copied in (type(layer).from_config(before), type(layer).from_config(before)):
        assert copied.get_config() == before
        assert (copied.name, copied.dtype_policy.name) == ("mine", "mixed_bfloat16")


@every_layer
def test_serialized_under_the_name_of_the_package(name: str) -> None:
    serialized = keras.saving.serialize_keras_object(make(name))
    assert serialized["registered_name"] == f"keras_transformer>{class_of(name).__name__}"
    restored = keras.saving.deserialize_keras_object(serialized)
    assert keras.saving.serialize_keras_object(restored) == serialized


def functional(name: str) -> Any:
    """A model of the one layer, with every size unknown that may be; its masks are inputs too."""
    case = CASES[name]
    inputs = [keras.Input((None, *x.shape[2:]), dtype=x.dtype) for x in case.inputs]
    masks = {mask: keras.Input((None,), dtype="int32") for mask in case.masks}
    return keras.Model([*inputs, *masks.values()], make(name)(*inputs, **masks))


def call_functional(model: Any, name: str) -> Any:
    return model(flat_inputs(name))


def flat_inputs(name: str) -> list[Any]:
    return [*CASES[name].inputs, *CASES[name].masks.values()]


@every_layer
def test_saved_and_loaded(name: str, tmp_path: Path) -> None:
    model = functional(name)
    expected = array(call_functional(model, name))
    model.save(tmp_path / "model.keras")
    reloaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(call_functional(reloaded, name)), expected)


@every_layer
def test_symbolic_shape_is_the_eager_shape(name: str) -> None:
    case = CASES[name]
    eager = call(make(name), name)
    inputs = [keras.Input(batch_shape=x.shape, dtype=x.dtype) for x in case.inputs]
    symbolic = make(name)(*inputs, **case.masks)
    assert tuple(symbolic.shape) == tuple(eager.shape)
    assert symbolic.dtype == keras.backend.standardize_dtype(eager.dtype)
    unknown = tuple(functional(name).output.shape)
    assert unknown == (case.unknown or (None, None, eager.shape[-1]))


@every_layer
def test_functional_model_gives_the_eager_numbers(name: str) -> None:
    model = functional(name)
    layer = next(layer for layer in model.layers if type(layer) is class_of(name))
    np.testing.assert_allclose(array(call_functional(model, name)), array(call(layer, name)), atol=1e-6)


@every_layer
def test_tf_function_with_unknown_sizes(name: str) -> None:
    if keras.backend.backend() != "tensorflow":
        pytest.skip("needs the TensorFlow backend")
    tf = pytest.importorskip("tensorflow")
    case, layer = CASES[name], make(name)
    expected = array(call(layer, name))
    given = flat_inputs(name)
    specs = [tf.TensorSpec((None, None, *x.shape[2:]), x.dtype) for x in given]

    @tf.function(input_signature=specs)
    def compiled(*tensors: Any) -> Any:
        split = len(case.inputs)
        return layer(*tensors[:split], **dict(zip(case.masks, tensors[split:], strict=True)))

    np.testing.assert_allclose(array(compiled(*given)), expected, atol=1e-5)


@every_layer
@pytest.mark.parametrize(("policy", "tolerance"), [("mixed_float16", 0.02), ("mixed_bfloat16", 0.15)])
def test_half_precision_is_close_to_float32(name: str, policy: str, tolerance: float) -> None:
    layer, half = make(name), make(name, dtype=policy)
    expected, _ = array(call(layer, name)), call(half, name)
    half.set_weights(layer.get_weights())
    outputs = call(half, name)
    assert keras.backend.standardize_dtype(outputs.dtype) == policy.removeprefix("mixed_")
    assert np.abs(numbers(outputs) - expected).max() < tolerance


@every_layer
def test_copies_stand_alone(name: str) -> None:
    layer = make(name)
    expected = array(call(layer, name))
    copied = copy.deepcopy(layer)
    np.testing.assert_array_equal(array(call(copied, name)), expected)
    assert not {id(weight) for weight in layer.weights} & {id(weight) for weight in copied.weights}


@pytest.mark.slow
@every_layer
def test_xla(name: str) -> None:
    backend, case, layer = keras.backend.backend(), CASES[name], make(name)
    expected = array(call(layer, name))
    given = flat_inputs(name)

    def function(*tensors: Any) -> Any:
        split = len(case.inputs)
        return layer(*tensors[:split], **dict(zip(case.masks, tensors[split:], strict=True)))

    if backend == "tensorflow":
        function = pytest.importorskip("tensorflow").function(function, jit_compile=True, autograph=False)
    elif backend == "jax":
        function = pytest.importorskip("jax").jit(function)
    else:
        pytest.skip("torch has no XLA")
    np.testing.assert_allclose(array(function(*given)), expected, atol=1e-5)


class Holder(keras.Model):
    """Holds a layer as people's own models do."""

    def __init__(self, layer: Any, masks: dict[str, Any]) -> None:
        super().__init__()
        self.layer, self.masks = layer, masks

    def call(self, inputs: Any) -> Any:
        return self.layer(*inputs, **self.masks)


@every_layer
def test_summary_of_a_model_that_holds_it(name: str) -> None:
    case, lines = CASES[name], list[str]()
    model = Holder(make(name, name="mine"), case.masks)
    outputs = model([keras.ops.convert_to_tensor(each) for each in case.inputs])
    model.summary(print_fn=lambda line, **_: lines.append(line), line_length=90)
    wanted = "?" if name == "Dropout" else str(tuple(outputs.shape))  # "?" as for Keras's
    assert wanted in "\n".join(lines)


@pytest.mark.parametrize("name", sorted(CASES.keys() - WITHOUT_WEIGHTS))
def test_checkpoints_of_tensorflow(name: str, tmp_path: Path) -> None:
    if keras.backend.backend() != "tensorflow":
        pytest.skip("needs the TensorFlow backend")
    tf = pytest.importorskip("tensorflow")
    trained, fresh = (make(name, **SEVERAL.get(name, {})) for _ in range(2))
    for layer in (trained, fresh):
        call(layer, name)
    path = tf.train.Checkpoint(layer=trained).save(tmp_path / "checkpoint")
    tf.train.Checkpoint(layer=fresh).restore(path).assert_existing_objects_matched()
    for wanted, found in zip(trained.weights, fresh.weights, strict=True):
        np.testing.assert_array_equal(array(found), array(wanted), err_msg=found.path)


@pytest.mark.slow
def test_saved_model(tmp_path: Path) -> None:
    """All layers in one, since each SavedModel takes a second."""
    if keras.backend.backend() != "tensorflow":
        pytest.skip("needs the TensorFlow backend")
    tf = pytest.importorskip("tensorflow")
    models = {name: functional(name) for name in CASES}
    expected = {name: array(call_functional(model, name)) for name, model in models.items()}
    inputs = [each for model in models.values() for each in model.inputs]
    together = keras.Model(inputs, {name: model.output for name, model in models.items()})
    together.export(tmp_path / "exported", verbose=False)
    given = [x for name in CASES for x in flat_inputs(name)]
    loaded = tf.saved_model.load(tmp_path / "exported")  # what is not held loses its variables
    served = loaded.serve([tf.cast(x, i.dtype) for x, i in zip(given, inputs, strict=True)])
    for name in CASES:
        np.testing.assert_allclose(array(served[name]), expected[name], atol=1e-5, err_msg=name)


@every_layer
def test_no_two_weights_start_equal(name: str) -> None:
    """A Keras initializer draws the same numbers at every call: kernels made with one would be equal."""
    layer = make(name)
    call(layer, name)
    drawn = [array(weight) for weight in layer.weights if len(np.unique(array(weight))) > 1]
    for number, first in enumerate(drawn):
        same_size = [other for other in drawn[:number] if other.size == first.size]
        assert not any(np.allclose(first.ravel(), other.ravel()) for other in same_size)


@every_layer
@pytest.mark.parametrize("by_constructor", [False, True])
def test_frozen_before_it_is_built(name: str, by_constructor: bool) -> None:
    layer = make(name, **({"trainable": False} if by_constructor else {}))
    layer.trainable = False
    case = CASES[name]
    inputs = [keras.Input((None, *x.shape[2:]), dtype=x.dtype) for x in case.inputs]
    model = keras.Model(inputs, layer(*inputs))
    assert model.trainable_weights == []
    assert layer.trainable_weights == []


@pytest.fixture
def bfloat16_everywhere() -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    yield
    keras.config.set_dtype_policy(before)


@every_layer
@pytest.mark.usefixtures("bfloat16_everywhere")
def test_the_dtype_of_the_layer_wins_over_the_global_policy(name: str) -> None:
    case, layer = CASES[name], make(name, dtype="float32")
    outputs = call(layer, name)
    assert keras.backend.standardize_dtype(outputs.dtype) == "float32"
    assert {part.compute_dtype for part in layer._flatten_layers()} == {"float32"}
    inputs = [keras.Input(batch_shape=x.shape, dtype=x.dtype) for x in case.inputs]
    assert make(name, dtype="float32")(*inputs, **case.masks).dtype == "float32"


@every_layer
def test_what_an_eager_call_refuses_is_refused_symbolically(name: str) -> None:
    case, layer = CASES[name], make(name)
    call(layer, name)
    names = [*map(str, range(len(case.inputs))), *case.masks]
    given = dict(zip(names, flat_inputs(name), strict=True))

    def apply(tensors: dict[str, Any]) -> Any:
        inputs = [tensors.pop(key) for key in names[: len(case.inputs)]]
        return layer(*inputs, **tensors)

    assert refused_in_one_way_only(apply, given) == []
