"""The decoder step by step against its call over the whole target."""

import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.layers import CachedDecoder, Decoder, DecoderLayer

SOURCE = np.array([[1] * 3, [1, 1, 0]])
MEMORY = draw(2, 3, 7, seed=1)
PADDING_ONLY = np.array([[1] * 3, [0] * 3])
ROWS = [1, 1, 3, 2]


def made(num_layers: int = 2, *, alone: bool = False, **options: Any) -> Decoder:
    """Its encoder is narrower than it is itself, or it has none."""
    decoder = Decoder(num_layers, 2, 11, **options)
    decoder.build(*[(None, None, width) for width in ([8] if alone else [8, 7])])
    decoder.set_weights([0.5 * draw(*w.shape, seed=number) for number, w in enumerate(decoder.weights)])
    return decoder


def check_steps(cached: CachedDecoder, cache: CachedDecoder.Cache, x: Any, whole: Any) -> CachedDecoder.Cache:
    for position in range(x.shape[1]):
        output, cache = cached.step(x[:, position : position + 1], position, cache)
        np.testing.assert_allclose(array(output)[:, 0], array(whole)[:, position], atol=1e-5)
    return cache


@pytest.mark.parametrize("source", [SOURCE, PADDING_ONLY], ids=["padded", "nothing"])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("beam_size", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_steps_equal_the_whole_pass(norm_first: bool, beam_size: int, source: Any) -> None:
    decoder, x = made(norm_first=norm_first, dropout=0.3), draw(2 * beam_size, 5, 8)
    repeated, mask = (np.repeat(part, beam_size, axis=0) for part in (MEMORY, source))
    cached = CachedDecoder(decoder)
    cache = cached.create_cache(MEMORY, source, max_length=7, beam_size=beam_size)
    check_steps(cached, cache, x, decoder(x, repeated, encoder_padding_mask=mask))


@pytest.mark.parametrize(
    "options",
    [
        {"positions": "rotary", "num_key_value_heads": 1},
        {"positions": "relative"},
        {"positions": "relative_keys"},
        {"positions": "relative_sinusoidal", "share_layers": True},
        {"positions": "relative", "head_dim": 5, "use_bias": False, "final_norm": True},
        {"normalization": "rms", "gated": True, "activation": "silu"},
        {"dtype": "mixed_bfloat16"},
    ],
)
def test_steps_with_each_option(options: Any) -> None:
    decoder, x = made(**options), draw(4, 5, 8)
    repeated, mask = (np.repeat(part, 2, axis=0) for part in (MEMORY, SOURCE))
    cached = CachedDecoder(decoder)
    cache = cached.create_cache(MEMORY, SOURCE, max_length=5, beam_size=2)
    whole = keras.ops.cast(decoder(x, repeated, encoder_padding_mask=mask), "float32")
    tolerance = 0.15 if "dtype" in options else 1e-5
    for position in range(5):
        output, cache = cached.step(x[:, position : position + 1], position, cache)
        assert output.dtype == keras.ops.zeros((), decoder.compute_dtype).dtype
        output = array(keras.ops.cast(output, "float32"))
        np.testing.assert_allclose(output[:, 0], array(whole)[:, position], atol=tolerance)


@pytest.mark.parametrize("norm_first", [False, True])
def test_without_cross_attention(norm_first: bool) -> None:
    decoder, x = made(alone=True, norm_first=norm_first), draw(6, 5, 8)
    cached = CachedDecoder(decoder)
    cache = cached.create_cache(None, None, 5, beam_size=3, batch_size=2)
    assert (cache.cross_attention, cache.encoder_padding_mask) == ((), ())
    check_steps(cached, cache, x, decoder(x))


def test_without_a_mask() -> None:
    decoder, x = made(), draw(2, 5, 8)
    cached = CachedDecoder(decoder)
    check_steps(cached, cached.create_cache(MEMORY, None, 5), x, decoder(x, MEMORY))


def test_the_mask_of_an_embedding_is_read() -> None:
    memory = keras.layers.Embedding(20, 7, mask_zero=True)(np.array([[3, 4, 5, 0, 0]]))
    decoder, x = made(1), draw(1, 3, 8)
    cached = CachedDecoder(decoder)
    check_steps(cached, cached.create_cache(memory, None, 3), x, decoder(x, memory))


def test_it_keeps_the_weights_that_it_was_made_with() -> None:
    decoder, x = made(), draw(2, 5, 8)
    cached, whole = CachedDecoder(decoder), array(decoder(x, MEMORY))
    decoder.set_weights([0 * weight for weight in decoder.get_weights()])
    check_steps(cached, cached.create_cache(MEMORY, None, 5), x, whole)


def test_reordered_hypotheses() -> None:
    decoder, x = made(), draw(4, 2, 8)  # two hypotheses of each source
    cached = CachedDecoder(decoder)
    _, cache = cached.step(x[:, :1], 0, cached.create_cache(MEMORY, SOURCE, 2, beam_size=2))
    reordered = cache.reorder(np.array(ROWS))
    assert reordered.self_attention is cache.self_attention, "no keys are copied"
    output, _ = cached.step(x[ROWS, 1:], 1, reordered)
    repeated, mask = (np.repeat(part, 2, axis=0) for part in (MEMORY, SOURCE))
    expected = array(decoder(x[ROWS], repeated, encoder_padding_mask=mask))[:, 1]
    np.testing.assert_allclose(array(output)[:, 0], expected, atol=1e-5)


def test_one_hypothesis_needs_no_reordering() -> None:
    cache = CachedDecoder(made()).create_cache(MEMORY, SOURCE, 2)
    assert cache.reorder(np.array([0, 1])) is cache


@pytest.mark.parametrize("alone", [False, True])
def test_selected_sources(alone: bool) -> None:
    decoder, x = made(alone=alone), draw(4, 3, 8)
    cached = CachedDecoder(decoder)
    memory, mask, size = (None, None, 2) if alone else (MEMORY, SOURCE, None)
    cache = cached.create_cache(memory, mask, 3, 2, size)
    _, cache = cached.step(x[:, :1], 0, cache)
    chosen = keras.tree.map_structure(lambda part: part[1:], cache)  # as a search does
    assert chosen.beam_size == 2
    expected, _ = cached.step(x[:, 1:2], 1, cache)
    found, _ = cached.step(x[2:, 1:2], 1, chosen)
    np.testing.assert_allclose(array(found), array(expected)[2:], atol=1e-6)


def test_grown_caches() -> None:
    decoder, x = made(), draw(4, 5, 8)
    repeated, mask = (np.repeat(part, 2, axis=0) for part in (MEMORY, SOURCE))
    whole, cached = decoder(x, repeated, encoder_padding_mask=mask), CachedDecoder(decoder)
    cache = check_steps(cached, cached.create_cache(MEMORY, SOURCE, 2, beam_size=2), x[:, :2], whole)
    grown = cache.grow(3)
    assert (array(grown.ancestors)[:, :, 2:] == -1).all()
    assert tuple(grown.self_attention[1].keys.shape) == (2, 2, 10, 4)
    for position in range(2, 5):
        output, grown = cached.step(x[:, position : position + 1], position, grown)
        np.testing.assert_allclose(array(output)[:, 0], array(whole)[:, position], atol=1e-5)


@pytest.mark.parametrize("alone", [False, True])
def test_a_loop_carries_the_cache(alone: bool) -> None:
    """None would not pass: TensorFlow makes a tensor of everything that a loop carries."""
    memory, size = (None, 2) if alone else (MEMORY, None)
    cache = CachedDecoder(made(alone=alone)).create_cache(memory, None, 3, 2, size)
    marks = np.array([[[0, 0, -1], [0, 1, -1]], [[0, 0, -1], [1, 1, -1]]], "int32")
    cache = cache._replace(ancestors=keras.ops.convert_to_tensor(marks))

    def advance(position: Any, cache: Any) -> Any:
        return position + 1, cache.reorder(np.array(ROWS))

    start = (keras.ops.convert_to_tensor(0), cache)
    position, carried = keras.ops.while_loop(lambda position, _: position < 2, advance, start)
    assert int(position) == 2
    assert isinstance(carried, CachedDecoder.Cache)
    twice = marks.reshape(4, 3)[[ROWS[row] for row in ROWS]]
    np.testing.assert_array_equal(array(carried.ancestors).reshape(4, 3), twice)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow's operation")
@pytest.mark.parametrize("in_place", [False, True])
def test_a_loop_of_tensorflow_may_write_in_place(in_place: bool) -> None:
    import tensorflow as tf

    decoder, x = made(), draw(4, 5, 8)
    whole = array(decoder(x, np.repeat(MEMORY, 2, axis=0)))

    def run(memory: Any, length: Any) -> Any:
        cached = CachedDecoder(decoder, in_place=in_place)
        cache = cached.create_cache(memory, None, length, beam_size=2)
        outputs = tf.TensorArray("float32", size=length)

        def body(position: Any, cache: Any, outputs: Any) -> Any:
            inputs = tf.gather(x, [position], axis=1)
            output, cache = cached.step(tf.ensure_shape(inputs, (4, 1, 8)), position, cache)
            return position + 1, cache, outputs.write(position, output[:, 0])

        loop = tf.while_loop(lambda position, *_: position < length, body, (0, cache, outputs))
        return tf.transpose(loop[2].stack(), (1, 0, 2))

    signature = [tf.TensorSpec((2, None, 7)), tf.TensorSpec((), tf.int32)]
    graph = tf.function(run, input_signature=signature, autograph=False)
    np.testing.assert_allclose(array(graph(MEMORY, 5)), whole, atol=1e-5)
    functions = graph.get_concrete_function().graph.as_graph_def().library.function
    found = {node.op for function in functions for node in function.node_def}
    assert ("InplaceUpdate" in found) == in_place
    assert "ReadVariableOp" not in found, "a variable is read once, before the loop"


def test_what_the_decoder_was_not_built_for() -> None:
    message = "`encoder_output` must be None, as when the layer was built. Received: encoder_output=a tensor"
    with pytest.raises(ValueError, match=re.escape(message)):
        CachedDecoder(made(alone=True)).create_cache(MEMORY, None, 5)
    with pytest.raises(ValueError, match=re.escape("Received: encoder_output=None.")):
        CachedDecoder(made()).create_cache(None, None, 5, batch_size=2)
    message = "must have the size of the layer's weights, 7. Received: shape=(2, 3, 9)."
    with pytest.raises(ValueError, match=re.escape(message)):
        CachedDecoder(made()).create_cache(draw(2, 3, 9), None, 5)


def test_what_is_no_built_decoder() -> None:
    decoder = Decoder(1, 2, 16, name="mine")
    with pytest.raises(
        ValueError, match=r"`decoder` must be built, as by a call\. Received: mine, without w"
    ):
        CachedDecoder(decoder)
    with pytest.raises(TypeError, match=r"`decoder` must be"):
        CachedDecoder(DecoderLayer(2, 16))  # type: ignore[arg-type]


def test_a_batch_size_where_none_is_wanted() -> None:
    message = "`batch_size` must be given exactly where `encoder_output` is None. Received: batch_size="
    with pytest.raises(ValueError, match=re.escape(f"{message}None, encoder_output=None.")):
        CachedDecoder(made(alone=True)).create_cache(None, None, 5)
    received = f"{message}2, encoder_output=a tensor of shape (2, 3, 7)."
    with pytest.raises(ValueError, match=re.escape(received)):
        CachedDecoder(made()).create_cache(MEMORY, None, 5, batch_size=2)


def test_a_position_that_there_is_no_room_for() -> None:
    cached = CachedDecoder(made())
    message = "`position` must be at least 0 and below max_length=3. Received: position=3."
    with pytest.raises(ValueError, match=re.escape(message)):
        cached.step(draw(2, 1, 8), 3, cached.create_cache(MEMORY, None, 3))
