"""Padding and the future never change an answer, however a layer or model is called.

The same checks are run on layers that ignore their masks on purpose, and have to notice them.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from helpers import array, draw
from keras_transformer import course, layers
from keras_transformer.layers.cached_attention import _CachedAttention

Function = Callable[..., Any]
"""`(source, its padding mask, target, **call options) -> output`, for a batch."""

NUM_PADS = 3


VECTORS = (draw(2, 5, 8), draw(2, 4, 8, seed=1))
IDS = (np.array([[5, 3, 9, 2, 7], [4, 8, 6, 1, 1]]), np.array([[2, 5, 3, 4], [2, 9, 7, 8]]))
FRAMES = (draw(2, 5, 7), IDS[1])


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A layer or model, and how its masks are reached."""

    make: Callable[..., Any]
    """Gives the layer, or model, with a width of 8 and all weights random; takes `dropout` and `dtype`."""
    call: Callable[..., Any]
    """`(layer, source, mask, target, **options) -> output`."""
    inputs: tuple[Any, Any]
    """Source and target."""
    step: Callable[..., Any] | None = None
    """As `call`, but one position after the other, through the cache."""
    reads_source: bool = True
    """Whether there is padding to ignore."""
    writes_target: bool = True
    """Whether there is a future to hide."""
    has_scores: bool = True
    """Whether scores can be asked for in the call."""


def randomized(layer: Any) -> Any:
    values = [0.4 * draw(*weight.shape, seed=number) for number, weight in enumerate(layer.weights)]
    layer.set_weights(values)
    return layer


def built(layer: Any, *widths: int) -> Any:
    layer.build(*[(None, None, width) for width in widths])
    return randomized(layer)


def attention(dropout: float = 0.0, cls: Any = None, **options: Any) -> Any:
    cls = cls or layers.MultiHeadAttention
    return built(cls(2, 4, dropout=dropout, **options), 8, 8)


def block(name: str, *sizes: int, inputs: int, dropout: float = 0.0, **options: Any) -> Any:
    rates = dict.fromkeys(("dropout", "attention_dropout", "intermediate_dropout"), dropout)
    return built(getattr(layers, name)(*sizes, 2, 11, **rates, **options), *[8] * inputs)


def model(name: str, *sizes: Any, dropout: float = 0.0, **options: Any) -> Any:
    rates = dict.fromkeys(("dropout", "attention_dropout", "intermediate_dropout"), dropout)
    shape = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
    return randomized(getattr(kt, name)(*sizes, **shape, **rates, **options))


def course_layer(name: str, inputs: int, dropout: float = 0.0, dtype: Any = None) -> Any:
    return built(getattr(course, name)(8, 2, 11, dropout_rate=dropout, dtype=dtype), *[8] * inputs)


def first(outputs: Any, options: dict[str, Any]) -> Any:
    """The output alone, where the scores came too."""
    return outputs[0] if options.get("return_attention_scores") else outputs


def cross(layer: Any, source: Any, mask: Any, target: Any, **options: Any) -> Any:
    return first(layer(target, source, padding_mask=mask, **options), options)


def causal(layer: Any, source: Any, mask: Any, target: Any, **options: Any) -> Any:
    return first(layer(target, target, use_causal_mask=True, **options), options)


def encode(layer: Any, source: Any, mask: Any, target: Any, **options: Any) -> Any:
    return first(layer(source, padding_mask=mask, **options), options)


def decode(layer: Any, source: Any, mask: Any, target: Any, **options: Any) -> Any:
    return first(layer(target, source, encoder_padding_mask=mask, **options), options)


def decode_alone(layer: Any, source: Any, mask: Any, target: Any, **options: Any) -> Any:
    return first(layer(target, **options), options)


def translate(model: Any, source: Any, mask: Any, target: Any, **options: Any) -> Any:
    return model({"encoder_token_ids": source, "decoder_token_ids": target}, **options)


def transcribe(model: Any, source: Any, mask: Any, target: Any, **options: Any) -> Any:
    inputs = {"encoder_features": source, "encoder_padding_mask": mask, "decoder_token_ids": target}
    return model(inputs, **options)


def course_encode(layer: Any, source: Any, mask: Any, target: Any, training: bool = False) -> Any:
    return layer(source, training, mask[:, None, :])


def course_decode(layer: Any, source: Any, mask: Any, target: Any, training: bool = False) -> Any:
    look_ahead = np.tril(np.ones((1, target.shape[1], target.shape[1])))
    return layer(target, source, training, look_ahead, mask[:, None, None, :])[0]


def one_by_one(target: Any, step: Callable[..., Any], cache: Any) -> Any:
    """Every position of the target in turn, `(b, t, ...)`."""
    outputs = []
    for position in range(target.shape[1]):
        output, cache = step(position, cache)
        outputs.append(output)
    return keras.ops.stack(outputs, axis=1)


def attention_steps(layer: Any, source: Any, mask: Any, target: Any) -> Any:
    cached, length = _CachedAttention(layer), target.shape[1]

    def step(position: int, cache: Any) -> Any:
        plan = cached.plan(position, cache, keras.ops.arange(length)[None, None, :] <= position)
        return cached.step(keras.ops.convert_to_tensor(target[:, position]), cache, plan)[:2]

    return one_by_one(target, step, cached.create(length, len(target)))


def decoder_steps(layer: Any, source: Any, mask: Any, target: Any) -> Any:
    cached = layers.CachedDecoder(layer)

    def step(position: int, cache: Any) -> Any:
        output, cache = cached.step(target[:, position : position + 1], position, cache)
        return output[:, 0], cache

    return one_by_one(target, step, cached.create_cache(source, mask, target.shape[1]))


def model_steps(model: Any, source: Any, mask: Any, target: Any) -> Any:
    mask = None if is_ids(source) else mask
    step, cache = model.start_decoding(source, target.shape[1], padding_mask=mask)
    return one_by_one(target, lambda p, cache: step(target[:, p], p, cache), cache)


def lm_steps(model: Any, source: Any, mask: Any, target: Any) -> Any:
    step, cache = model.start_decoding(target[:, :1], target.shape[1])
    return one_by_one(target, lambda p, cache: step(target[:, p], p, cache), cache)


PRE = {"norm_first": True}
ALONE = {"reads_source": False}
SUBJECTS = {
    "attention": Subject(make=attention, call=cross, inputs=VECTORS, writes_target=False),
    "attention, causal": Subject(
        make=attention, call=causal, inputs=VECTORS, step=attention_steps, reads_source=False
    ),
    "attention, grouped, rotary": Subject(
        make=functools.partial(attention, num_key_value_heads=1, positions="rotary"),
        call=causal,
        inputs=VECTORS,
        step=attention_steps,
        reads_source=False,
    ),
    "attention, window, relative": Subject(
        make=functools.partial(attention, sliding_window=3, positions="relative"),
        call=causal,
        inputs=VECTORS,
        step=attention_steps,
        reads_source=False,
    ),
    "EncoderLayer": Subject(
        make=functools.partial(block, "EncoderLayer", inputs=1),
        call=encode,
        inputs=VECTORS,
        has_scores=False,
        writes_target=False,
    ),
    "Encoder, pre-norm": Subject(
        make=functools.partial(block, "Encoder", 1, inputs=1, **PRE),
        call=encode,
        inputs=VECTORS,
        has_scores=False,
        writes_target=False,
    ),
    "DecoderLayer": Subject(
        make=functools.partial(block, "DecoderLayer", inputs=2),
        call=decode,
        inputs=VECTORS,
        has_scores=False,
    ),
    "Decoder": Subject(
        make=functools.partial(block, "Decoder", 1, inputs=2),
        call=decode,
        inputs=VECTORS,
        step=decoder_steps,
        has_scores=False,
    ),
    "DecoderLayer, alone": Subject(
        make=functools.partial(block, "DecoderLayer", inputs=1),
        call=decode_alone,
        inputs=VECTORS,
        has_scores=False,
        reads_source=False,
    ),
    "Decoder, pre-norm": Subject(
        make=functools.partial(block, "Decoder", 1, inputs=2, **PRE),
        call=decode,
        inputs=VECTORS,
        step=decoder_steps,
        has_scores=False,
    ),
    "Transformer": Subject(
        make=functools.partial(model, "Transformer", 11, 13),
        call=translate,
        inputs=IDS,
        step=model_steps,
        has_scores=False,
    ),
    "Transformer, pre-norm, frames": Subject(
        make=functools.partial(model, "Transformer", None, 13, encoder_feature_dim=7, **PRE),
        call=transcribe,
        inputs=FRAMES,
        step=model_steps,
        has_scores=False,
    ),
    "Transformer, convolved frames": Subject(
        make=functools.partial(
            model, "Transformer", None, 13, encoder_feature_dim=7, source_convolutions=True
        ),
        call=transcribe,
        inputs=FRAMES,
        step=model_steps,
        has_scores=False,
    ),
    "CausalLM": Subject(
        make=functools.partial(model, "CausalLM", 13),
        call=decode_alone,
        inputs=IDS,
        step=lm_steps,
        has_scores=False,
        reads_source=False,
    ),
    "EncoderModel": Subject(
        make=functools.partial(model, "EncoderModel", 11, 3),
        call=lambda model, source, mask, target, **options: model(source, **options),
        inputs=IDS,
        has_scores=False,
        writes_target=False,
    ),
    "EncoderModel, pooled": Subject(
        make=functools.partial(model, "EncoderModel", 11, 3, pooling="mean"),
        call=lambda model, source, mask, target, **options: model(source, **options)[:, None, :],
        inputs=IDS,
        has_scores=False,
        writes_target=False,
    ),
    "course.EncoderLayer": Subject(
        make=functools.partial(course_layer, "EncoderLayer", 1),
        call=course_encode,
        inputs=VECTORS,
        has_scores=False,
        writes_target=False,
    ),
    "course.DecoderLayer": Subject(
        make=functools.partial(course_layer, "DecoderLayer", 2),
        call=course_decode,
        inputs=VECTORS,
        has_scores=False,
    ),
}


@functools.cache
def made(name: str, **options: Any) -> Any:
    return SUBJECTS[name].make(**options)


def bound(name: str, layer: Any, **call: Any) -> Function:
    return functools.partial(SUBJECTS[name].call, layer, **call)


def compiled(function: Function) -> Function:
    backend = keras.backend.backend()
    if backend == "tensorflow":
        tf = pytest.importorskip("tensorflow")
        return tf.function(function, jit_compile=True, autograph=False)
    if backend == "jax":
        return pytest.importorskip("jax").jit(function)
    pytest.skip("torch has no XLA")


def same_dropout(name: str) -> Function:
    """Called in training with dropout, of which each call draws the same."""
    layer = made(name, dropout=0.4)
    generators = [part.seed_generator for part in layer._flatten_layers() if hasattr(part, "seed_generator")]
    states = [array(generator.state).copy() for generator in generators]  # torch shares its memory
    assert states

    def function(source: Any, mask: Any, target: Any) -> Any:
        for generator, state in zip(generators, states, strict=True):
            generator.state.assign(state)
        if keras.backend.backend() == "torch":  # where a dropout without a seed draws from the global state
            pytest.importorskip("torch").manual_seed(0)
        return SUBJECTS[name].call(layer, source, mask, target, training=True)

    return function


VARIANTS: dict[str, Callable[[str], Function]] = {
    "inference": lambda name: bound(name, made(name)),
    "training": lambda name: bound(name, made(name), training=True),
    "dropout": same_dropout,
    "scores": lambda name: bound(name, made(name), return_attention_scores=True),
    "cache": lambda name: functools.partial(SUBJECTS[name].step, made(name)),
    "jit": lambda name: compiled(bound(name, made(name))),
    "mixed_float16": lambda name: bound(name, made(name, dtype="mixed_float16")),
    "mixed_bfloat16": lambda name: bound(name, made(name, dtype="mixed_bfloat16")),
}
# Next to float32, for outputs of the size of 1 to 10.
PRECISION = {"mixed_float16": 0.02, "mixed_bfloat16": 0.15}
# One step of rounding between 2 and 4: a longer source may be summed up in another order.
LEAKS = {"mixed_float16": 2.0**-9, "mixed_bfloat16": 2.0**-6}

# What is rounded is no other mask.
HALF = ("Decoder", "Transformer")


def each_variant(names: list[str], without: str) -> Any:
    """Parametrize a test by subjects and their variants, but one."""
    cases = [
        pytest.param(name, variant, marks=[pytest.mark.slow] if variant == "jit" else [])
        for name in names
        for variant in VARIANTS
        if variant != without
        and (variant != "cache" or SUBJECTS[name].step)
        and (variant != "scores" or SUBJECTS[name].has_scores)
        and (variant not in PRECISION or name in HALF)
    ]
    return pytest.mark.parametrize(("name", "variant"), cases)


READ_SOURCES = [name for name, subject in SUBJECTS.items() if subject.reads_source]
WRITE_TARGETS = [name for name, subject in SUBJECTS.items() if subject.writes_target]


def numbers(outputs: Any) -> Any:
    return array(keras.ops.cast(outputs, "float32"))


def is_ids(inputs: Any) -> bool:
    return bool(np.issubdtype(inputs.dtype, np.integer))


def padding_leak(function: Function, source: Any, target: Any) -> float:
    """How far `NUM_PADS` more source positions of padding move the output."""
    plain, widths = np.ones(source.shape[:2], bool), [(0, 0), (0, NUM_PADS)]
    padded = np.pad(source, widths) if is_ids(source) else np.pad(source, [*widths, (0, 0)], mode="reflect")
    before = numbers(function(source, plain, target))
    after = numbers(function(padded, np.pad(plain, widths), target))
    return float(np.abs(after[:, : before.shape[1]] - before).max())


def future_leak(function: Function, source: Any, target: Any) -> float:
    """How far another last target position moves the positions before it."""
    changed = target.copy()
    changed[:, -1] = changed[:, -1] + 1 if is_ids(target) else -changed[:, -1]
    mask = np.ones(source.shape[:2], bool)
    before, after = (numbers(function(source, mask, each)) for each in (target, changed))
    assert np.abs(after[:, -1] - before[:, -1]).max() > 1e-3
    return float(np.abs(after[:, :-1] - before[:, :-1]).max())


@each_variant(READ_SOURCES, without="dropout")  # of which a longer source draws another
def test_padding_changes_nothing(name: str, variant: str, close: Any) -> None:
    function = VARIANTS[variant](name)
    close(padding_leak(function, *SUBJECTS[name].inputs), 0.0, LEAKS.get(variant, 1e-5))


@each_variant(WRITE_TARGETS, without="training")  # as with dropout
def test_the_future_changes_nothing(name: str, variant: str, close: Any) -> None:
    function = VARIANTS[variant](name)
    close(future_leak(function, *SUBJECTS[name].inputs), 0.0, LEAKS.get(variant, 1e-5))


@pytest.mark.parametrize("name", [name for name, subject in SUBJECTS.items() if subject.step])
def test_the_cache_changes_nothing(name: str, close: Any) -> None:
    source, target = SUBJECTS[name].inputs
    mask = np.ones(source.shape[:2], bool)
    if not is_ids(source):
        mask[1, 3:] = False
    whole, stepwise = (VARIANTS[variant](name)(source, mask, target) for variant in ("inference", "cache"))
    close(numbers(stepwise), numbers(whole), 1e-5)


@pytest.mark.parametrize("policy", PRECISION)
@pytest.mark.parametrize("name", HALF)
def test_half_precision_is_close_to_float32(name: str, policy: str, close: Any) -> None:
    source, target = SUBJECTS[name].inputs
    mask = np.ones(source.shape[:2], bool)
    half = VARIANTS[policy](name)(source, mask, target)
    assert keras.backend.standardize_dtype(half.dtype) == policy.removeprefix("mixed_")
    close(numbers(half), numbers(VARIANTS["inference"](name)(source, mask, target)), PRECISION[policy])


# Each call with its masks by position, by keyword, and without.
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]])
PAIRS = draw(5, 5) > 0
POSITIONAL = {
    "attention": ((VECTORS[0], VECTORS[0], VECTORS[0], PAIRS), {"attention_mask": PAIRS}),
    "EncoderLayer": ((VECTORS[0], MASK), {"padding_mask": MASK}),
    "Encoder, pre-norm": ((VECTORS[0], MASK), {"padding_mask": MASK}),
    "DecoderLayer": ((VECTORS[1], VECTORS[0], None, MASK), {"encoder_padding_mask": MASK}),
    "Decoder, pre-norm": ((VECTORS[1], VECTORS[0], None, MASK), {"encoder_padding_mask": MASK}),
}


@pytest.mark.parametrize("name", POSITIONAL)
def test_a_mask_counts_by_position_as_by_keyword(name: str, close: Any) -> None:
    layer, (arguments, keyword) = made(name), POSITIONAL[name]
    inputs = [x for x in arguments[:-1] if x is not None]
    close(numbers(layer(*arguments)), numbers(layer(*inputs, **keyword)), 0.0)
    assert np.abs(numbers(layer(*arguments)) - numbers(layer(*inputs))).max() > 1e-2


def test_padding_of_the_target_changes_nothing(close: Any) -> None:
    source, target = IDS
    padded = np.pad(target, [(0, 0), (0, NUM_PADS)])
    function, mask = VARIANTS["inference"]("Transformer"), np.ones(source.shape, bool)
    before, after = (numbers(function(source, mask, each)) for each in (target, padded))
    close(after[:, : target.shape[1]], before, 1e-5)


class MaskIgnored(layers.MultiHeadAttention):
    """A mutant that ignores every mask."""

    def call(
        self,
        query: Any,
        value: Any,
        key: Any = None,
        attention_mask: Any = None,
        padding_mask: Any = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        options = {"return_attention_scores": return_attention_scores, "training": training}
        return super().call(query, value, key, **options)


@pytest.fixture
def mutated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer made in the test attends like the mutant."""
    monkeypatch.setattr(layers, "MultiHeadAttention", MaskIgnored)
    for module in ("layers.block", "course.transformer"):
        monkeypatch.setattr(f"keras_transformer.{module}.MultiHeadAttention", MaskIgnored)


@pytest.mark.usefixtures("mutated")
@pytest.mark.parametrize("name", SUBJECTS)
def test_the_checks_notice_a_mutant(name: str) -> None:
    subject = SUBJECTS[name]
    function = bound(name, subject.make())
    if subject.reads_source:
        assert padding_leak(function, *subject.inputs) > 1e-3
    if subject.writes_target:
        assert future_leak(function, *subject.inputs) > 1e-3
