import functools
import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer import CausalLM, Transformer
from keras_transformer.layers import padding_mask

SIZES: dict[str, Any] = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
SOURCE = np.array([[5, 3, 9, 2, 7], [4, 8, 6, 0, 0]])
TARGET = np.array([[2, 5, 11, 3], [2, 12, 0, 0]])
INPUTS = {"encoder_token_ids": SOURCE, "decoder_token_ids": TARGET}
DESIGNS = [{}, {"norm_first": True}, {"tie_output": False, "num_encoder_layers": 3, "num_decoder_layers": 2}]


def fresh(**options: Any) -> Any:
    """A model in which every weight, biases too, is random."""
    model = Transformer(11, 13, **{**SIZES, **options})
    generator = np.random.default_rng(0)
    model.set_weights([generator.normal(scale=0.5, size=weight.shape) for weight in model.weights])
    return model


made = functools.cache(fresh)  # for tests that only call a model


def call(model: Any, source: Any, target: Any, **options: Any) -> Any:
    inputs = {"encoder_token_ids": np.asarray(source), "decoder_token_ids": np.asarray(target)}
    return array(model(inputs, **options))


@pytest.mark.parametrize("design", DESIGNS)
def test_reads_like_figure_1(design: dict[str, Any]) -> None:
    model = made(**design)
    source_mask, target_mask = padding_mask(SOURCE), padding_mask(TARGET)
    memory = model.encoder(model.position_encoding(model.source_embedding(SOURCE)), padding_mask=source_mask)
    states = model.decoder(
        model.position_encoding(model.target_embedding(TARGET)),
        memory,
        padding_mask=target_mask,
        encoder_padding_mask=source_mask,
    )
    expected = array(model.output_projection(states))
    assert expected.shape == (2, 4, 13)
    np.testing.assert_allclose(array(model(INPUTS)), expected, atol=1e-5)


def test_is_a_functional_model_of_any_batch_and_lengths() -> None:
    model = made()
    assert isinstance(model, keras.Model)
    assert tuple(model.output.shape) == (None, None, 13)
    for batch, source_length, target_length in [(1, 1, 1), (3, 2, 7), (2, 7, 3)]:
        logits = call(model, np.ones((batch, source_length), int), np.ones((batch, target_length), int))
        assert logits.shape == (batch, target_length, 13)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint16"])
def test_token_ids_of_any_integer_type(dtype: str) -> None:
    model = made()
    np.testing.assert_array_equal(
        call(model, SOURCE.astype(dtype), TARGET.astype(dtype)), array(model(INPUTS))
    )


def test_rows_of_a_batch_do_not_mix() -> None:
    model = made()
    together = array(model(INPUTS))
    for row in range(2):
        alone = call(model, SOURCE[row : row + 1], TARGET[row : row + 1])
        np.testing.assert_allclose(alone[0], together[row], atol=1e-5)


@pytest.mark.parametrize(
    "stack",
    ["decoder", *(pytest.param(each, marks=pytest.mark.slow) for each in ("encoder", "decoder alone"))],
)
def test_layers_on_the_output_of_a_stack_know_its_padding(stack: str) -> None:
    is_alone = stack == "decoder alone"
    model = CausalLM(13, **SIZES) if is_alone else made()
    pooled = keras.layers.GlobalAveragePooling1D()(model.get_layer(stack.split()[0]).output)
    means = keras.Model(model.input, pooled)
    padded = {name: np.pad(ids, ((0, 0), (0, 3))) for name, ids in INPUTS.items()}
    mean, same = (array(means(each["decoder_token_ids"] if is_alone else each)) for each in (INPUTS, padded))
    np.testing.assert_allclose(same, mean, atol=1e-5)


class Unchanged(keras.layers.Layer):
    """Stands for an encoder that does nothing."""

    def call(self, inputs: Any, padding_mask: Any = None, attention_mask: Any = None, **options: Any) -> Any:
        return inputs


def test_encode() -> None:
    model = fresh(dropout=0.5)
    memory, mask = model.encode(SOURCE)
    expected = model.encoder(model.position_encoding(model.source_embedding(SOURCE)), padding_mask=mask)
    np.testing.assert_allclose(array(memory), array(expected), atol=1e-6)
    assert array(mask).astype(int).tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
    assert np.abs(array(model.encode(SOURCE, training=True)[0]) - array(expected)).max() > 1e-3
    model.encoder = Unchanged()
    dropped = array(model.encode(SOURCE, training=True)[0])
    assert 0.2 < (dropped == 0).mean() < 0.8, "the embeddings are dropped before the first layer"


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("beam_size", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_steps_equal_the_whole_pass(design: dict[str, Any], beam_size: int) -> None:
    model = made(**design)
    target = np.random.default_rng(1).integers(1, 13, size=(2 * beam_size, 5))
    full = call(model, np.repeat(SOURCE, beam_size, axis=0), target)
    step, cache = model.start_decoding(SOURCE, max_length=5, beam_size=beam_size)
    for position in range(5):
        logits, cache = step(target[:, position], position, cache)
        np.testing.assert_allclose(array(logits), full[:, position], atol=1e-5)


def test_steps_of_reordered_hypotheses() -> None:
    model, rows = made(), [1, 1, 2, 3]
    target = np.array([[2, 5], [2, 7], [2, 9], [2, 4]])
    step, cache = model.start_decoding(SOURCE, 2, beam_size=2)
    _, cache = step(target[:, 0], 0, cache)
    logits, _ = step(target[rows, 1], 1, cache.reorder(np.array(rows)))
    expected = call(model, np.repeat(SOURCE, 2, axis=0), target[rows])[:, 1]
    np.testing.assert_allclose(array(logits), expected, atol=1e-5)


def test_attention_scores() -> None:
    scores = made(num_decoder_layers=2).attention_scores(INPUTS)
    assert {name: tuple(score.shape) for name, score in scores.items()} == {
        "encoder/layer_1/self_attention": (2, 2, 5, 5),
        "decoder/layer_1/self_attention": (2, 2, 4, 4),
        "decoder/layer_1/cross_attention": (2, 2, 4, 5),
        "decoder/layer_2/self_attention": (2, 2, 4, 4),
        "decoder/layer_2/cross_attention": (2, 2, 4, 5),
    }
    for name, score in scores.items():
        np.testing.assert_allclose(array(score).sum(-1), 1.0, atol=1e-5, err_msg=name)
        padded = 2 if name.startswith("decoder") and "self" in name else 3
        np.testing.assert_array_equal(array(score)[1, :, :, padded:], 0)


def test_training_moves_every_weight() -> None:
    model = fresh(dropout=0.1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, run_eagerly=True)
    before = model.get_weights()
    model.train_on_batch(INPUTS, TARGET)
    # A bias of the keys changes all logits of a query alike, so the softmax is deaf to it.
    still = [
        weight.path
        for weight, old in zip(model.trainable_weights, before, strict=True)
        if np.array_equal(array(weight), old) and not weight.path.endswith("key/bias")
    ]
    assert still == []


def test_a_source_of_padding_only() -> None:
    model = fresh()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, run_eagerly=True)
    source = np.array([[0, 0, 0, 0, 0], [4, 8, 6, 0, 0]])
    assert np.all(np.isfinite(call(model, source, TARGET)))
    np.testing.assert_allclose(call(model, source, TARGET)[1], array(model(INPUTS))[1], atol=1e-5)
    model.train_on_batch({"encoder_token_ids": source, "decoder_token_ids": TARGET}, TARGET)
    assert all(np.all(np.isfinite(weight)) for weight in model.get_weights())


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_is_close_to_float32(policy: str) -> None:
    model, half = Transformer(11, 13, **SIZES), Transformer(11, 13, **SIZES, dtype=policy)
    half.set_weights(model.get_weights())
    logits = half(INPUTS)
    assert keras.backend.standardize_dtype(logits.dtype) == policy.removeprefix("mixed_")
    assert {keras.backend.standardize_dtype(weight.dtype) for weight in half.weights} == {"float32"}
    tolerance = 0.02 if policy == "mixed_float16" else 0.1
    difference = array(keras.ops.cast(logits, "float32")) - array(model(INPUTS))
    assert np.abs(difference).max() < tolerance


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    made().summary()
    assert "output_projection" in capsys.readouterr().out


@pytest.mark.parametrize("missing", ["encoder_token_ids", "decoder_token_ids"])
def test_a_missing_input(missing: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        made()({name: ids for name, ids in INPUTS.items() if name != missing})


def test_wrong_arguments_are_refused_at_construction() -> None:
    with pytest.raises(ValueError, match=re.escape("Received: num_heads=7, hidden_dim=512.")):
        Transformer(11, 13, num_heads=7)
    with pytest.raises(ValueError, match=re.escape("Received: dropout=1.0.")):
        Transformer(11, 13, dropout=1.0)
    with pytest.raises(ValueError, match="nonsense"):
        Transformer(11, 13, **SIZES, activation="nonsense")


@pytest.mark.parametrize("tie_output", [False, True])
@pytest.mark.parametrize("share_embeddings", [False, True])
def test_sharing_and_tying(share_embeddings: bool, tie_output: bool) -> None:
    model = Transformer(13, 13, **SIZES, share_embeddings=share_embeddings, tie_output=tie_output)
    assert (model.source_embedding is model.target_embedding) == share_embeddings
    assert (model.output_projection.embedding is model.target_embedding) == tie_output


def test_sequences_of_no_length() -> None:
    model, nothing = made(), np.zeros((2, 0), "int32")
    assert tuple(call(model, SOURCE, nothing).shape[:2]) == (2, 0)
    assert tuple(call(model, nothing, SOURCE).shape[:2]) == SOURCE.shape
