"""Each fast path of attention against its formula."""

import functools
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from helpers import array, draw, input_gradient
from keras_transformer._backend import attend_step, compile_function, fused_attention, masked_softmax
from keras_transformer._backend.attention import _attend_fused
from keras_transformer.layers import dot_product_attention
from keras_transformer.types import MINUS_INFINITY

B, T, S, H, K = 2, 5, 7, 4, 8
DEAD = np.ones((B, 1, T, S), bool)
DEAD[1, 0, 3] = False
MASKS = {
    "no mask": None,
    "padding": np.arange(S)[None, None, None, :] < np.array([7, 3])[:, None, None, None],
    "causal": np.tril(np.ones((1, 1, T, S), bool)),
    "a mask for each head": np.random.default_rng(3).random((B, H, T, S)) > 0.4,
    "a row that may attend to nothing": DEAD,
}


def softmax(logits: Any, mask: Any) -> Any:
    logits = logits.astype("float64")
    exponentials = np.where(mask, np.exp(logits - logits.max(-1, keepdims=True)), 0.0)
    return exponentials / np.maximum(exponentials.sum(-1, keepdims=True), 1e-300)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_masked_softmax(mask: str, training: bool) -> None:
    logits, allowed = draw(B, H, T, S), MASKS[mask]
    given = None if allowed is None else ops.convert_to_tensor(allowed)
    scores = masked_softmax(ops.convert_to_tensor(logits), given, training=training)
    expected = softmax(logits, np.True_ if allowed is None else allowed)
    np.testing.assert_allclose(array(scores), expected, atol=1e-6)


def test_softmax_of_large_logits() -> None:
    scores = array(masked_softmax(ops.convert_to_tensor([[[[3e4, -3e4, 3e4]]]]), None))
    np.testing.assert_allclose(scores.ravel(), [0.5, 0.0, 0.5])


def test_softmax_never_scores_what_is_masked() -> None:
    mask = ops.convert_to_tensor([[[[True, False]]]])
    scores = array(masked_softmax(ops.convert_to_tensor([[[[-3e38, 3e38]]]]), mask))
    assert scores.ravel().tolist() == [1.0, 0.0]


@pytest.mark.parametrize("mask_shape", [(2, 1, 1, 11), (2, 1, 5, 11), (2, 3, 5, 11), (5, 11)])
def test_the_gradient_in_training_is_the_derived_one(mask_shape: tuple[int, ...]) -> None:
    logits, upstream = draw(2, 3, 5, 11, seed=1), ops.convert_to_tensor(draw(2, 3, 5, 11, seed=2))
    mask = ops.convert_to_tensor(draw(*mask_shape, seed=9) > -0.5)

    def gradient(training: bool) -> Any:
        return input_gradient(lambda x: masked_softmax(x, mask, training=training) * upstream, logits)

    np.testing.assert_allclose(gradient(True), gradient(False), atol=1e-6)
    assert np.abs(gradient(True)).max() > 0.1


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="sizes that only a run knows")
@pytest.mark.parametrize("shape", [(None, None, None, None), (1, 2, 3, 3)])
def test_a_mask_of_unknown_size_must_not_widen_the_scores(shape: Any) -> None:
    import tensorflow as tf

    signature = [tf.TensorSpec(shape), tf.TensorSpec([None] * 4, tf.bool)]
    function, logits = tf.function(masked_softmax, input_signature=signature), tf.zeros((1, 2, 3, 3))
    assert function(logits, tf.ones((1, 1, 3, 3), tf.bool)).shape == (1, 2, 3, 3)
    with pytest.raises(tf.errors.InvalidArgumentError):
        function(logits, tf.ones((2, 1, 3, 3), tf.bool))


def heads(dtype: str = "float32") -> list[Any]:
    shapes = (B, T, H, K), (B, S, H, K), (B, S, H, K)
    return [ops.cast(draw(*shape, seed=seed), dtype) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize("mask", MASKS)
def test_fused_attention_is_the_plain_formula(mask: str) -> None:
    expected, _ = dot_product_attention(*heads(), MASKS[mask])
    given = None if MASKS[mask] is None else ops.convert_to_tensor(MASKS[mask])
    np.testing.assert_allclose(array(_attend_fused(*heads(), given)), array(expected), atol=1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 0.003), ("bfloat16", 0.03)])
def test_fused_attention_in_half_precision(dtype: str, tolerance: float) -> None:
    expected, _ = dot_product_attention(*heads(), DEAD)
    output = _attend_fused(*heads(dtype), ops.convert_to_tensor(DEAD))
    assert keras.backend.standardize_dtype(output.dtype) == dtype
    output = array(ops.cast(output, "float32"))
    np.testing.assert_allclose(output, array(expected), atol=tolerance)
    assert not output[1, 3].any()


def test_a_compiled_step_in_float16() -> None:
    """Not eager: what a device lacks shows when a step is compiled."""
    mask = ops.convert_to_tensor(DEAD)
    expected = dot_product_attention(*heads(), mask)[0]
    compiled = compile_function(lambda *inputs: _attend_fused(*inputs, mask), inputs=None)
    np.testing.assert_allclose(array(compiled(*heads("float16"))), array(expected), atol=0.003)


def test_gradients_of_fused_attention() -> None:
    query, key, value = heads()
    mask, weights = map(ops.convert_to_tensor, (DEAD, draw(B, T, H, K, seed=9)))
    plain = input_gradient(lambda q: dot_product_attention(q, key, value, mask)[0] * weights, array(query))
    fused = input_gradient(lambda q: _attend_fused(q, key, value, mask) * weights, array(query))
    np.testing.assert_allclose(fused, plain, atol=1e-5)
    assert np.isfinite(fused).all()


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="only torch's kernels have dropout")
@pytest.mark.parametrize("mask", MASKS)
def test_dropout_in_the_kernel_is_dropout_of_the_scores(mask: str) -> None:
    query, key, value = heads()
    given = None if MASKS[mask] is None else ops.convert_to_tensor(MASKS[mask])
    weights = ops.convert_to_tensor(draw(B, T, H, K, seed=9))
    kernel, dropout = fused_attention(K, K, 0.4), keras.layers.Dropout(0.4)
    assert kernel is not None

    def formula(query: Any) -> Any:
        drop = functools.partial(dropout, training=True)
        return dot_product_attention(query, key, value, given, dropout=drop)[0] * weights

    results = []
    for compute in (formula, lambda query: kernel(query, key, value, given) * weights):
        keras.utils.set_random_seed(7)  # torch's own generator, from which both draw
        output = array(compute(query))
        keras.utils.set_random_seed(7)
        results.append((output, input_gradient(compute, array(query))))
    np.testing.assert_allclose(results[1][0], results[0][0], atol=1e-5)
    np.testing.assert_allclose(results[1][1], results[0][1], atol=1e-5)
    # The draw, and not only its mean, is that of the formula.
    assert np.abs(results[0][0] - array(dot_product_attention(query, key, value, given)[0])).max() > 0.1


def test_which_backend_has_a_fused_kernel() -> None:
    expected = _attend_fused if keras.backend.backend() in ("jax", "torch") else None
    assert fused_attention(8, 8) is expected
    assert fused_attention(8, 7) is None
    assert (fused_attention(8, 8, 0.1) is None) == (keras.backend.backend() != "torch")


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="the kernel is one of JAX")
@pytest.mark.parametrize("mask", [None, "padding", "causal"])
def test_a_tpu_has_the_same_attention(mask: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keras's kernel for a TPU has other numbers, as Pallas's interpreter shows on a processor."""
    import jax
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel

    make = functools.partial(splash_attention_kernel.make_splash_mha, interpret=True)
    monkeypatch.setattr(splash_attention_kernel, "make_splash_mha", make)
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(platform="tpu")])
    # Sizes that the kernel takes; it falls back for others.
    query, key, value = (ops.convert_to_tensor(draw(2, 128, 1, 128, seed=seed)) for seed in range(3))
    masks = {
        "padding": np.arange(128)[None, None, None, :] < np.array([128, 90])[:, None, None, None],
        "causal": np.tril(np.ones((1, 1, 128, 128), bool)),
    }
    given = None if mask is None else ops.broadcast_to(masks[mask], (2, 1, 128, 128))
    expected, _ = dot_product_attention(query, key, value, given)
    np.testing.assert_allclose(array(_attend_fused(query, key, value, given)), array(expected), atol=1e-5)
    theirs = array(ops.dot_product_attention(query, key, value, mask=given))
    assert np.abs(theirs - array(expected)).max() > 0.1
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    with pytest.raises(ValueError, match="On a TPU, `flash_attention` of Keras returns wrong results"):
        _attend_fused(query, key, value, given, flash_attention=True)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("num_hypotheses", [1, 3])
@pytest.mark.parametrize(("groups", "shared"), [(6, 1), (2, 3), (1, 6)])
@pytest.mark.parametrize("jit", [False, True])
def test_a_step_is_its_einsums(num_hypotheses: int, groups: int, shared: int, dtype: str, jit: bool) -> None:
    query = draw(2, num_hypotheses, groups, shared, 5)
    keys, values = draw(2, groups, 11, 5, seed=1), draw(2, groups, 11, 7, seed=2)
    mask = np.random.default_rng(3).random((2, num_hypotheses, 1, 1, 11)) < 0.6
    mask[..., 0] = True
    logits = np.einsum("bngrk,bgmk->bngrm", query / np.sqrt(5), keys)
    expected = softmax(logits, mask)
    bias = np.where(mask, 0, MINUS_INFINITY).astype("float32")

    def step(query: Any, keys: Any, values: Any, bias: Any) -> Any:
        return attend_step(*(ops.cast(x, dtype) for x in (query, keys, values)), bias)

    if jit and keras.backend.backend() == "tensorflow":
        step = pytest.importorskip("tensorflow").function(step, jit_compile=True, autograph=False)
    elif jit and keras.backend.backend() == "jax":
        step = pytest.importorskip("jax").jit(step)
    outputs = step(*map(ops.convert_to_tensor, (query, keys, values, bias)))
    tolerance = {"float32": 1e-5, "float16": 0.01, "bfloat16": 0.05}[dtype]
    outputs = array(ops.cast(outputs, "float32"))
    np.testing.assert_allclose(outputs, np.einsum("bngrm,bgmk->bngrk", expected, values), atol=tolerance)


def test_a_step_without_a_bias_sees_everything() -> None:
    values = np.arange(4, dtype="float32").reshape(1, 1, 4, 1)
    output = attend_step(
        ops.zeros((1, 1, 1, 1, 3)), ops.ones((1, 1, 4, 3)), ops.convert_to_tensor(values), None
    )
    assert float(array(output).ravel()[0]) == pytest.approx(1.5)


def test_minus_infinity_absorbs_every_logit_and_is_finite() -> None:
    lowest = np.float32(MINUS_INFINITY)
    assert np.float32(1e4) + lowest == lowest
    assert np.isfinite(lowest)
