"""Batches that devices, processes and accumulated updates share."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer._backend import share_rows, weigh_updates
from keras_transformer.errors import InputError
from keras_transformer.training import MaskedCrossentropy, RDropCrossentropy

BATCH = ({"encoder_token_ids": [[5, 6, 3], [7, 3, 0], [3, 0, 0]]}, [[4, 3], [3, 0], [8, 3]])


def the_batch(dataset: tf.data.Dataset) -> tuple[np.ndarray, np.ndarray]:
    [(inputs, labels)] = dataset.as_numpy_iterator()
    return inputs["encoder_token_ids"], labels


def test_rows_of_padding_fill_a_batch() -> None:
    dataset = tf.data.Dataset.from_tensors(BATCH)
    source, labels = the_batch(share_rows(dataset, 4))
    np.testing.assert_array_equal(source, [*BATCH[0]["encoder_token_ids"], [0, 0, 0]])
    np.testing.assert_array_equal(labels, [*BATCH[1], [0, 0]])
    for multiple in (1, 3):
        assert the_batch(share_rows(dataset, multiple))[1].shape == (3, 2)


def test_a_batch_may_be_one_matrix_or_a_dict() -> None:
    ids = tf.ones((3, 2), tf.int32)
    for batch in (ids, {"ids": ids}, (ids, ids)):
        dataset = tf.data.Dataset.from_tensors(batch)
        [filled] = share_rows(dataset, 2)
        [half] = share_rows(share_rows(dataset, 2), 2, 1)
        tf.nest.assert_same_structure(filled, batch)
        tf.nest.assert_same_structure(half, batch)
        assert [tensor.shape[0] for tensor in tf.nest.flatten((filled, half))] == [4] * len(
            tf.nest.flatten(batch)
        ) + [2] * len(tf.nest.flatten(batch))


def test_processes_have_the_batch_between_them() -> None:
    dataset = share_rows(tf.data.Dataset.from_tensors(BATCH), 2)
    parts = [the_batch(share_rows(dataset, 2, process)) for process in range(2)]
    for whole, *pieces in zip(the_batch(dataset), *parts, strict=True):
        np.testing.assert_array_equal(whole, np.concatenate(pieces))


def test_weights_of_rows_are_filled_with_zeros() -> None:
    dataset = share_rows(tf.data.Dataset.from_tensors((*BATCH, [0.5, 0.5, 0.5])), 2)
    [(_, labels, weights)] = dataset.as_numpy_iterator()
    assert (labels.shape, weights.tolist()) == ((4, 2), [0.5, 0.5, 0.5, 0.0])


def test_rows_of_padding_count_nothing_in_a_mean_over_rows() -> None:
    labels = tf.constant([1, 0, 2])
    dataset = share_rows(tf.data.Dataset.from_tensors((tf.ones((3, 2)), labels)), 2, ignored_label=None)
    [(inputs, labels, weights)] = dataset
    logits = keras.ops.convert_to_tensor(np.arange(12.0).reshape(4, 3) ** 1.5)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    filled, plain = loss(labels, logits, weights.numpy()), loss(labels[:3], logits[:3])
    assert float(filled) == pytest.approx(float(plain), rel=1e-6)
    assert inputs.shape == (4, 2)
    # Labels of tokens become those that the loss ignores.
    [(_, labels)] = share_rows(tf.data.Dataset.from_tensors(BATCH), 2, ignored_label=-100)
    assert labels[-1].numpy().tolist() == [-100, -100]


def test_a_shard_is_of_filled_batches() -> None:
    dataset = share_rows(tf.data.Dataset.from_tensors(BATCH), 2, 1)
    source, labels = the_batch(dataset)
    assert (source.tolist(), labels.tolist()) == ([[3, 0, 0], [0, 0, 0]], [[8, 3], [0, 0]])


LABELS = np.array([[5, 2, 6, 3, 1], [1, 0, 0, 0, 0], [4, 4, 4, 0, 0], [6, 1, 0, 0, 0]], "int32")


def dataset(batch_size: int, labels: np.ndarray = LABELS) -> tf.data.Dataset:
    inputs = {"token_ids": labels + 0}
    return tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(batch_size)


def train(data: tf.data.Dataset, epochs: int = 1, steps: int | None = None, **loss: bool) -> np.ndarray:
    """Train a table of logits for each token, and give it."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((5,), dtype="int32", name="token_ids")
    model = keras.Model({"token_ids": inputs}, keras.layers.Dense(7)(keras.ops.one_hot(inputs, 7)))
    optimizer = keras.optimizers.SGD(1.0, momentum=0.5, clipnorm=0.2, gradient_accumulation_steps=steps)
    model.compile(optimizer, MaskedCrossentropy(0.1, **loss), jit_compile=False)
    model.fit(data, epochs=epochs, verbose=0, shuffle=False)
    return model.get_weights()[0]


@pytest.mark.parametrize("num_batches", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_small_batches_train_as_one_large_batch(num_batches: int) -> None:
    whole = train(dataset(num_batches), epochs=2)
    parts = weigh_updates(dataset(1), num_batches, 0)
    np.testing.assert_allclose(train(parts, 2, num_batches, normalize=False), whole, atol=1e-6)


@pytest.mark.slow
def test_the_mean_of_means_is_another_update() -> None:
    # What the weights are for: Keras alone lets the token of the second row count five times.
    assert np.abs(train(dataset(1), 1, 4) - train(dataset(4))).max() > 1e-2


def test_weights_by_hand() -> None:
    weights = [weights.numpy() for _, _, weights in weigh_updates(dataset(1), 2, 0)]
    np.testing.assert_allclose(weights, [[2 / 6], [2 / 6], [2 / 5], [2 / 5]])


def test_given_weights_are_shares_of_their_sum() -> None:
    rows = tf.data.Dataset.from_tensor_slices(({"token_ids": LABELS}, LABELS, [1.0, 0.0, 2.0, 4.0])).batch(1)
    found = [weights.numpy() for _, _, weights in weigh_updates(rows, 2, 0)]
    np.testing.assert_allclose(found, [[2 / 5], [0], [4 / 14], [8 / 14]])
    of_tokens = tf.data.Dataset.from_tensors((LABELS, LABELS, LABELS * 10))
    [(_, _, weights)] = weigh_updates(of_tokens, 1, 0)
    np.testing.assert_allclose(weights, LABELS / LABELS.sum(), rtol=1e-6)


def test_batches_come_unchanged_and_what_is_left_is_left_out() -> None:
    weighed = weigh_updates(dataset(1), 3, 0)
    assert int(weighed.cardinality()) == 3
    labels = [labels.numpy() for inputs, labels, _ in weighed]
    np.testing.assert_array_equal(np.concatenate(labels), LABELS[:3])
    np.testing.assert_array_equal(np.concatenate([each["token_ids"] for each, *_ in weighed]), LABELS[:3])


def test_another_padding_and_a_group_of_padding() -> None:
    [(_, _, weights)] = weigh_updates(dataset(4), 1, 4)
    np.testing.assert_allclose(weights, np.full(4, 1 / 17))
    [(_, _, weights)] = weigh_updates(dataset(1, np.zeros((1, 5), "int32")), 1, 0)
    assert weights.numpy() == [1.0]


def test_an_endless_dataset_stays_endless() -> None:
    weighed = weigh_updates(dataset(1).repeat(), 3, 0)
    assert len(list(weighed.take(6))) == 6


@pytest.mark.parametrize("loss", [MaskedCrossentropy(normalize=False), RDropCrossentropy(normalize=False)])
def test_without_weights_such_a_loss_is_a_mean(loss: MaskedCrossentropy) -> None:
    logits = np.random.default_rng(0).normal(size=(4, 5, 7)).astype("float32")
    mean = float(MaskedCrossentropy()(LABELS, logits))
    assert float(loss(LABELS, logits)) == pytest.approx(mean, rel=1e-6)
    assert float(loss(LABELS, logits, np.full(4, 2 / 11))) == pytest.approx(2 * mean, rel=1e-5)


def test_an_epoch_must_have_an_update() -> None:
    with pytest.raises(InputError, match=r"gradient_accumulation_steps=7, 4 batches an epoch\."):
        weigh_updates(dataset(1), 7, 0)
