"""Padding and the future never change an answer; the checks notice a layer that ignores its masks."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer import Transformer
from keras_transformer.layers import Decoder, DecoderLayer, Encoder, EncoderLayer, MultiHeadAttention

array = keras.ops.convert_to_numpy
NUM_PADS = 3
Call = Callable[..., Any]


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def randomized(layer: Any) -> Any:
    layer.set_weights([0.5 * draw(*w.shape, seed=number) for number, w in enumerate(layer.weights)])
    return layer


def numbers(outputs: Any) -> Any:
    return array(keras.ops.cast(outputs, "float32"))


def padding_leak(function: Call, source: Any, target: Any) -> float:
    """How far `NUM_PADS` more source positions of padding move `function(source, mask, target)`."""
    plain, widths = np.ones(source.shape[:2], bool), [(0, 0), (0, NUM_PADS)]
    padded = np.pad(source, widths) if is_ids(source) else np.pad(source, [*widths, (0, 0)], mode="reflect")
    before = numbers(function(source, plain, target))
    after = numbers(function(padded, np.pad(plain, widths), target))
    return float(np.abs(after[:, : before.shape[1]] - before).max())


def future_leak(function: Call, source: Any, target: Any) -> float:
    """How far another last target position moves the positions before it."""
    changed = target.copy()
    changed[:, -1] = changed[:, -1] + 1 if is_ids(target) else -changed[:, -1]
    mask = np.ones(source.shape[:2], bool)
    before, after = (numbers(function(source, mask, each)) for each in (target, changed))
    assert np.abs(after[:, -1] - before[:, -1]).max() > 1e-3
    return float(np.abs(after[:, :-1] - before[:, :-1]).max())


def is_ids(inputs: Any) -> bool:
    return bool(np.issubdtype(inputs.dtype, np.integer))


VECTORS = (draw(2, 5, 8), draw(2, 4, 8, seed=1))
IDS = (np.array([[5, 3, 9, 2, 7], [4, 8, 6, 1, 1]]), np.array([[2, 5, 3, 4], [2, 9, 7, 8]]))


def attention(cls: Any = MultiHeadAttention, **options: Any) -> Call:
    layer = cls(2, 4, **options)
    layer.build((None, None, 8), (None, None, 8))
    randomized(layer)
    return lambda source, mask, target: layer(target, source, padding_mask=mask)


def causal_attention(cls: Any = MultiHeadAttention) -> Call:
    layer = cls(2, 4)
    layer.build((None, None, 8), (None, None, 8))
    randomized(layer)
    return lambda source, mask, target: layer(target, target, use_causal_mask=True)


def encoder(layer: Any, **call: Any) -> Call:
    layer.build((None, None, 8))
    randomized(layer)
    return lambda source, mask, target: layer(source, padding_mask=mask, **call)


def decoder(layer: Any, **call: Any) -> Call:
    layer.build((None, None, 8), (None, None, 8))
    randomized(layer)
    return lambda source, mask, target: layer(target, source, encoder_padding_mask=mask, **call)


def model(scale: float = 1.0, training: bool = False, **options: Any) -> Call:
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11, "dropout": 0.0}
    transformer = Transformer(11, 13, **{**sizes, **options})
    randomized(transformer)
    transformer.set_weights([scale * weight for weight in transformer.get_weights()])

    def function(source: Any, mask: Any, target: Any) -> Any:
        inputs = {"encoder_token_ids": source, "decoder_token_ids": target}
        return transformer(inputs, training=training)

    function.__dict__["model"] = transformer
    return function


def stepwise(**options: Any) -> Call:
    """The model one position at a time, through its cache."""
    transformer = model(**options).__dict__["model"]

    def function(source: Any, mask: Any, target: Any) -> Any:
        cache, logits = transformer.create_cache(source, target.shape[1]), []
        for position in range(target.shape[1]):
            step, cache = transformer.decode_step(target[:, position], position, cache)
            logits.append(step)
        return keras.ops.stack(logits, axis=1)

    return function


PRE: dict[str, Any] = {"norm_first": True}
DROPOUT: dict[str, Any] = {"dropout": 0.5, "attention_dropout": 0.5, "intermediate_dropout": 0.5}
ENCODERS: dict[str, Callable[[], Call]] = {
    "encoder layer": lambda: encoder(EncoderLayer(2, 11)),
    "encoder layer, pre-norm, training": lambda: encoder(EncoderLayer(2, 11, **PRE), training=True),
    "encoder": lambda: encoder(Encoder(1, 2, 11)),
    "encoder, pre-norm, dropout": lambda: encoder(Encoder(1, 2, 11, **PRE, **DROPOUT)),
}
DECODERS: dict[str, Callable[[], Call]] = {
    "decoder layer": lambda: decoder(DecoderLayer(2, 11)),
    "decoder layer, pre-norm, training": lambda: decoder(DecoderLayer(2, 11, **PRE), training=True),
    "decoder": lambda: decoder(Decoder(1, 2, 11)),
    "decoder, pre-norm, dropout": lambda: decoder(Decoder(1, 2, 11, **PRE, **DROPOUT)),
}
MODELS: dict[str, Callable[[], Call]] = {
    "model": model,
    "model, pre-norm, untied": lambda: model(**PRE, tie_output=False),
    "model, dropout": lambda: model(**DROPOUT),
    "model, training": lambda: model(training=True),
    "model, step by step": stepwise,
}
CASES = [
    *[(name, make, VECTORS) for name, make in {"attention": attention, **ENCODERS, **DECODERS}.items()],
    *[(name, make, IDS) for name, make in MODELS.items()],
]
FUTURE_CASES = [
    ("causal attention", causal_attention, VECTORS),
    *[(name, make, VECTORS) for name, make in DECODERS.items()],
    *[(name, make, IDS) for name, make in MODELS.items()],
]


@pytest.mark.parametrize(("name", "make", "inputs"), CASES, ids=[case[0] for case in CASES])
def test_padding_changes_nothing(name: str, make: Callable[[], Call], inputs: Any) -> None:
    assert padding_leak(make(), *inputs) < 1e-5


@pytest.mark.parametrize(("name", "make", "inputs"), FUTURE_CASES, ids=[case[0] for case in FUTURE_CASES])
def test_the_future_changes_nothing(name: str, make: Callable[[], Call], inputs: Any) -> None:
    assert future_leak(make(), *inputs) < 1e-5


@pytest.mark.parametrize(("policy", "tolerance"), [("mixed_float16", 0.01), ("mixed_bfloat16", 0.08)])
def test_padding_and_the_future_in_half_precision(policy: str, tolerance: float) -> None:
    function = model(scale=0.4, dtype=policy)  # far from saturation, where precision is lost
    assert padding_leak(function, *IDS) < tolerance
    assert future_leak(function, *IDS) < tolerance


def test_padding_of_the_target_changes_nothing() -> None:
    source, target = IDS
    padded = np.pad(target, [(0, 0), (0, NUM_PADS)])
    function, mask = model(), np.ones(source.shape, bool)
    before, after = (numbers(function(source, mask, each)) for each in (target, padded))
    np.testing.assert_allclose(after[:, : target.shape[1]], before, atol=1e-5)


class MaskIgnored(MultiHeadAttention):
    """A mutant that hears no mask."""

    def attend(self, query: Any, keys: Any, values: Any, mask: Any = None, **options: Any) -> Any:
        return super().attend(query, keys, values, None, **options)


@pytest.fixture
def mutated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer made in the test attends like the mutant."""
    monkeypatch.setattr("keras_transformer.layers.block.MultiHeadAttention", MaskIgnored)


def test_the_checks_notice_a_mutant() -> None:
    assert padding_leak(attention(MaskIgnored), *VECTORS) > 1e-2
    assert future_leak(causal_attention(MaskIgnored), *VECTORS) > 1e-2


@pytest.mark.usefixtures("mutated")
@pytest.mark.parametrize(("name", "make", "inputs"), CASES[1:], ids=[case[0] for case in CASES[1:]])
def test_the_padding_check_notices_a_mutant(name: str, make: Callable[[], Call], inputs: Any) -> None:
    assert padding_leak(make(), *inputs) > 1e-3


@pytest.mark.usefixtures("mutated")
@pytest.mark.parametrize(
    "make", [model, lambda: decoder(DecoderLayer(2, 11))], ids=["model", "decoder layer"]
)
def test_the_future_check_notices_a_mutant(make: Callable[[], Call]) -> None:
    function = make()
    assert future_leak(function, *(IDS if "model" in function.__dict__ else VECTORS)) > 1e-3
