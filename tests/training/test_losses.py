"""The loss against its formula, with padding, weights and smoothing."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from helpers import array
from keras_transformer.training import MaskedAccuracy, MaskedCrossentropy, Perplexity

LABELS = np.array([[5, 2, 6, 0, 0], [1, 3, 0, 0, 0], [4, 4, 4, 6, 1]], dtype="int32")  # (3, 5)
LOGITS = np.random.default_rng(0).normal(scale=3.0, size=(3, 5, 7)).astype("float32")  # (3, 5, 7)


def smoothed_crossentropy(labels: np.ndarray, logits: np.ndarray, smoothing: float) -> np.ndarray:
    """The cross-entropy `(b, t)` by its definition: against one-hot labels that were smoothed."""
    vocabulary_size = logits.shape[-1]
    targets = (1 - smoothing) * np.eye(vocabulary_size)[labels] + smoothing / vocabulary_size
    exponentials = np.exp(logits.astype("float64"))
    return -np.sum(targets * np.log(exponentials / exponentials.sum(-1, keepdims=True)), axis=-1)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_the_crossentropy_of_a_token_is_that_of_smoothed_labels(smoothing: float) -> None:
    losses = array(MaskedCrossentropy(smoothing).call(LABELS, LOGITS))
    np.testing.assert_allclose(losses, smoothed_crossentropy(LABELS, LOGITS, smoothing), rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_is_the_mean_over_real_tokens(smoothing: float) -> None:
    expected = smoothed_crossentropy(LABELS, LOGITS, smoothing)[LABELS != 0].mean()
    assert float(MaskedCrossentropy(smoothing)(LABELS, LOGITS)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.backend
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_loss_equals_that_of_torch(smoothing: float) -> None:
    torch = pytest.importorskip("torch")
    reference = torch.nn.CrossEntropyLoss(label_smoothing=smoothing, ignore_index=0)
    logits, labels = torch.from_numpy(LOGITS.reshape(-1, 7)), torch.from_numpy(LABELS.reshape(-1)).long()
    expected = reference(logits, labels).item()
    assert float(MaskedCrossentropy(smoothing)(LABELS, LOGITS)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("pad_id", [-100, -1])
def test_padding_may_have_a_label_that_no_vocabulary_has(pad_id: int) -> None:
    labels = np.where(LABELS == 0, pad_id, LABELS)
    expected = float(MaskedCrossentropy(0.1)(LABELS, LOGITS))
    assert float(MaskedCrossentropy(0.1, pad_id)(labels, LOGITS)) == pytest.approx(expected, rel=1e-6)
    metrics = Perplexity(pad_id), Perplexity()
    for metric, ids in zip(metrics, (labels, LABELS), strict=True):
        metric.update_state(ids, LOGITS)
    assert float(metrics[0].result()) == pytest.approx(float(metrics[1].result()), rel=1e-6)


def test_loss_does_not_depend_on_padding() -> None:
    labels = np.pad(LABELS, ((0, 2), (0, 4)))
    logits = np.pad(LOGITS, ((0, 2), (0, 4), (0, 0)), constant_values=9.0)
    loss = MaskedCrossentropy(0.1)
    assert float(loss(labels, logits)) == pytest.approx(float(loss(LABELS, LOGITS)), rel=1e-6)


def test_another_label_can_be_padding() -> None:
    expected = smoothed_crossentropy(LABELS, LOGITS, 0.0)[LABELS != 4].mean()
    assert float(MaskedCrossentropy(pad_id=4)(LABELS, LOGITS)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 5)])
def test_sample_weights_say_how_much_a_token_counts(shape: tuple[int, ...]) -> None:
    sample_weight = np.random.default_rng(1).uniform(0.5, 2.0, size=shape).astype("float32")
    weights = (LABELS != 0) * (sample_weight[:, None] if len(shape) == 1 else sample_weight)
    expected = np.average(smoothed_crossentropy(LABELS, LOGITS, 0.1), weights=weights)
    loss = float(MaskedCrossentropy(0.1)(LABELS, LOGITS, sample_weight))
    assert loss == pytest.approx(expected, rel=1e-5)


def test_a_batch_without_a_token_has_the_loss_zero() -> None:
    loss = MaskedCrossentropy(0.1)
    assert float(loss(np.zeros_like(LABELS), LOGITS)) == 0.0
    assert float(loss(LABELS, LOGITS, np.zeros(3))) == 0.0
    assert float(loss(LABELS[:0], LOGITS[:0])) == 0.0


def test_a_batch_without_a_token_has_the_gradient_zero() -> None:
    model = keras.Sequential([keras.Input((5,), dtype="int32"), keras.layers.Embedding(7, 7)])
    before = [array(weight).copy() for weight in model.weights]
    model.compile(optimizer=keras.optimizers.SGD(1.0), loss=MaskedCrossentropy(0.1))
    assert model.train_on_batch(LABELS, np.zeros_like(LABELS)) == 0.0
    for old, weight in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(old, array(weight))


def test_low_precision_logits_are_computed_in_float32() -> None:
    logits = ops.cast(LOGITS, "bfloat16")
    exact = smoothed_crossentropy(LABELS, array(ops.cast(logits, "float32")), 0.1)
    losses = MaskedCrossentropy(0.1).call(LABELS, logits)
    assert keras.backend.standardize_dtype(losses.dtype) == "float32"
    np.testing.assert_allclose(array(losses), exact, rtol=1e-5)


def test_loss_survives_serialization() -> None:
    loss = MaskedCrossentropy(0.2, pad_id=4, name="loss_of_tokens", z_loss=0.01)
    restored = keras.losses.deserialize(keras.losses.serialize(loss))
    assert isinstance(restored, MaskedCrossentropy)
    assert restored.get_config() == loss.get_config()
    assert float(restored(LABELS, LOGITS)) == float(loss(LABELS, LOGITS))


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_a_wrong_smoothing_is_refused(smoothing: float) -> None:
    message = rf"at least 0 and below 1\. Received: label_smoothing={smoothing}\."
    with pytest.raises(ValueError, match=message):
        MaskedCrossentropy(smoothing)


@pytest.mark.parametrize("label", [-1, -100, 7, 12])
def test_a_label_of_no_vocabulary_is_no_number_unless_it_counts_nothing(label: int) -> None:
    labels = np.where(LABELS == 2, label, LABELS)
    assert np.isnan(float(MaskedCrossentropy(0.1)(labels, LOGITS)))
    perplexity = Perplexity()
    perplexity.update_state(labels, LOGITS)
    assert np.isnan(float(perplexity.result()))

    weights = (LABELS != 2).astype("float32")
    wanted = float(MaskedCrossentropy(0.1)(LABELS, LOGITS, weights))
    assert float(MaskedCrossentropy(0.1)(labels, LOGITS, weights)) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("make", [MaskedCrossentropy, MaskedAccuracy, Perplexity])
def test_padding_is_a_whole_number(make: Any) -> None:
    with pytest.raises(TypeError, match=r"`pad_id` must be an integer\. Received: pad_id=1\.5"):
        make(pad_id=1.5)


@pytest.mark.parametrize("pad_id", [-100, 10**6])
def test_padding_may_be_a_label_of_no_vocabulary(pad_id: int) -> None:
    labels = np.where(LABELS == 0, pad_id, LABELS)
    for kind in (MaskedCrossentropy, Perplexity):
        padded, wanted = kind(pad_id=pad_id)(labels, LOGITS), kind()(LABELS, LOGITS)
        assert float(padded) == pytest.approx(float(wanted), rel=1e-6)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="of XLA under TensorFlow")
def test_a_label_of_no_vocabulary_is_no_number_under_xla() -> None:
    import tensorflow as tf

    loss = tf.function(MaskedCrossentropy(0.1), jit_compile=True)
    assert np.isnan(float(loss(tf.constant(np.where(LABELS == 2, 7, LABELS)), tf.constant(LOGITS))))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_z_loss_is_the_square_of_the_normalizer(smoothing: float) -> None:
    logits = LOGITS + 5
    normalizers = np.log(np.exp(logits.astype("float64")).sum(-1))
    expected = smoothed_crossentropy(LABELS, logits, smoothing) + 0.01 * normalizers**2
    losses = array(MaskedCrossentropy(smoothing, z_loss=0.01).call(LABELS, logits))
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_gradient_of_the_z_loss_is_that_of_the_formula(smoothing: float) -> None:
    """By what one step of gradient descent makes of a table of logits."""
    ids = np.arange(15).reshape(3, 5)  # a row of the table for each token
    model = keras.Sequential([keras.Input((5,), dtype="int32"), keras.layers.Embedding(15, 7)])
    table = LOGITS.reshape(15, 7) + 5
    model.set_weights([table])
    model.compile(keras.optimizers.SGD(1.0), MaskedCrossentropy(smoothing, z_loss=0.01))
    model.train_on_batch(ids, LABELS)
    probabilities = np.exp(table - table.max(-1, keepdims=True))
    probabilities /= probabilities.sum(-1, keepdims=True)
    normalizers = np.log(np.exp(table.astype("float64")).sum(-1, keepdims=True))
    targets = (1 - smoothing) * np.eye(7)[LABELS.reshape(-1)] + smoothing / 7
    gradient = (probabilities * (1 + 0.02 * normalizers) - targets) * (LABELS.reshape(-1, 1) != 0)
    received = array(model.weights[0])
    np.testing.assert_allclose(received, table - gradient / (LABELS != 0).sum(), atol=1e-5)


@pytest.mark.parametrize("z_loss", [-1e-4, float("inf")])
def test_a_wrong_z_loss_is_refused(z_loss: float) -> None:
    with pytest.raises(ValueError, match=rf"at least 0 and finite\. Received: z_loss={z_loss}\."):
        MaskedCrossentropy(z_loss=z_loss)


@pytest.mark.parametrize(
    ("shape", "logits_shape"), [((3,), (3, 2)), ((3, 4, 7), (3, 4, 7)), ((3, 4, 1), (3, 4, 7))]
)
def test_other_shapes_are_refused(shape: tuple[int, ...], logits_shape: tuple[int, ...]) -> None:
    labels, logits = np.ones(shape, "int32"), np.ones(logits_shape, "float32")
    message = r"Labels must be integers \(b, t\) for logits \(b, t, v\).* Received: labels of shape"
    with pytest.raises(ValueError, match=message):
        MaskedCrossentropy()(labels, logits)
    with pytest.raises(ValueError, match=message):
        MaskedAccuracy().update_state(labels, logits)


def test_a_forgotten_shift_is_named() -> None:
    with pytest.raises(ValueError, match=r"labels of shape \(2, 3\), logits of shape \(2, 4, 7\)"):
        MaskedCrossentropy()(np.ones((2, 3), "int32"), np.ones((2, 4, 7), "float32"))


def test_sample_weights_of_another_rank_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be \(b,\) or \(b, t\).* Received: .* \(2, 2, 1\)"):
        MaskedCrossentropy()(np.ones((2, 2), "int32"), np.ones((2, 2, 7)), np.ones((2, 2, 1)))


def test_calls_of_several_ranks() -> None:
    """TensorFlow traces a compiled model again for the second rank, with an unknown rank."""
    model = keras.Sequential([keras.Input((5,), dtype="int32"), keras.layers.Embedding(7, 7)])
    model.compile(optimizer=keras.optimizers.SGD(1.0), loss=MaskedCrossentropy())
    wanted = model.evaluate(LABELS, LABELS, verbose=0)
    for weights in (np.ones(3), np.ones(LABELS.shape), np.ones(3)):
        assert model.evaluate(LABELS, LABELS, sample_weight=weights, verbose=0) == pytest.approx(wanted)
    # Keras on JAX does not call a model again after an error.
    for wrong in (np.eye(7)[LABELS], LABELS[:, :, None])[: 1 if keras.backend.backend() == "jax" else 2]:
        with pytest.raises(ValueError, match="Labels must be integers"):
            model.evaluate(LABELS, wrong, verbose=0)


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1, "z_loss": 0.1}])
def test_the_gradient_of_the_gradient(options: dict[str, float]) -> None:
    """A penalty on the gradient changes the weights as finite differences say."""
    backend, loss = keras.backend.backend(), MaskedCrossentropy(**options)
    kernel = np.random.default_rng(0).normal(size=(7, 7)).astype("float32")

    def penalty_gradient() -> Any:
        if backend == "tensorflow":
            tf = pytest.importorskip("tensorflow")
            x, w = tf.constant(LOGITS), tf.constant(kernel)
            with tf.GradientTape() as outer:
                outer.watch(w)
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    value = loss(LABELS, x @ w)
                penalty = tf.reduce_sum(inner.gradient(value, x) ** 2)
            return outer.gradient(penalty, w)
        if backend == "torch":
            torch = pytest.importorskip("torch")
            x, w = (torch.tensor(each, requires_grad=True) for each in (LOGITS, kernel))
            [inner] = torch.autograd.grad(loss(LABELS, x @ w), x, create_graph=True)
            return torch.autograd.grad((inner**2).sum(), w)[0]
        jax = pytest.importorskip("jax")
        inner = jax.grad(lambda x, w: loss(LABELS, x @ w))
        return jax.grad(lambda w: (inner(jax.numpy.asarray(LOGITS), w) ** 2).sum())(kernel)

    def penalty(w: Any) -> float:
        """The same in float64, by the formula of the gradient."""
        logits = LOGITS.astype("float64") @ w
        normalizers = np.log(np.exp(logits).sum(-1, keepdims=True))
        smoothing, z_loss = options.get("label_smoothing", 0.0), options.get("z_loss", 0.0)
        wanted = (1 - smoothing) * np.eye(7)[LABELS] + smoothing / 7
        inner = np.exp(logits - normalizers) * (1 + 2 * z_loss * normalizers) - wanted
        is_token = (LABELS != 0)[..., None]
        return float((((is_token * inner / is_token.sum()) @ w.T) ** 2).sum())

    found, wanted = array(penalty_gradient()), np.zeros((7, 7))
    for at in np.ndindex(7, 7):
        step = np.zeros((7, 7))
        step[at] = 1e-5
        wanted[at] = (penalty(kernel + step) - penalty(kernel - step)) / 2e-5
    np.testing.assert_allclose(found, wanted, atol=1e-4 * abs(wanted).max())
