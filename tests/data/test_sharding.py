import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data import fill_rows, rows_of_process

BATCH = ({"encoder_token_ids": [[5, 6, 3], [7, 3, 0], [3, 0, 0]]}, [[4, 3], [3, 0], [8, 3]])


def the_batch(dataset: tf.data.Dataset) -> tuple[np.ndarray, np.ndarray]:
    [(inputs, labels)] = dataset.as_numpy_iterator()
    return inputs["encoder_token_ids"], labels


def test_rows_of_padding_fill_a_batch() -> None:
    dataset = tf.data.Dataset.from_tensors(BATCH)
    source, labels = the_batch(dataset.apply(fill_rows(4)))
    np.testing.assert_array_equal(source, [*BATCH[0]["encoder_token_ids"], [0, 0, 0]])
    np.testing.assert_array_equal(labels, [*BATCH[1], [0, 0]])
    for multiple in (1, 3):
        assert the_batch(dataset.apply(fill_rows(multiple)))[1].shape == (3, 2)


def test_a_batch_may_be_one_matrix_or_a_dict() -> None:
    ids = tf.ones((3, 2), tf.int32)
    for batch in (ids, {"ids": ids}, (ids, ids)):
        dataset = tf.data.Dataset.from_tensors(batch)
        [filled] = dataset.apply(fill_rows(2))
        [half] = dataset.apply(fill_rows(2)).apply(rows_of_process(2, 1))
        tf.nest.assert_same_structure(filled, batch)
        tf.nest.assert_same_structure(half, batch)
        assert [tensor.shape[0] for tensor in tf.nest.flatten((filled, half))] == [4] * len(
            tf.nest.flatten(batch)
        ) + [2] * len(tf.nest.flatten(batch))


def test_processes_have_the_batch_between_them() -> None:
    dataset = tf.data.Dataset.from_tensors(BATCH).apply(fill_rows(2))
    parts = [the_batch(dataset.apply(rows_of_process(2, process))) for process in range(2)]
    for whole, *pieces in zip(the_batch(dataset), *parts, strict=True):
        np.testing.assert_array_equal(whole, np.concatenate(pieces))


def test_wrong_numbers() -> None:
    with pytest.raises(ValueError, match=r"`multiple` must be above zero\. Received: multiple=0\."):
        fill_rows(0)
    with pytest.raises(ValueError, match=r"below `num_processes`\. Received: process=2, num_processes=2\."):
        rows_of_process(2, 2)


def test_weights_of_rows_are_filled_with_zeros() -> None:
    dataset = tf.data.Dataset.from_tensors((*BATCH, [0.5, 0.5, 0.5])).apply(fill_rows(2))
    [(_, labels, weights)] = dataset.as_numpy_iterator()
    assert (labels.shape, weights.tolist()) == ((4, 2), [0.5, 0.5, 0.5, 0.0])


def test_rows_that_processes_cannot_share_are_refused() -> None:
    dataset = tf.data.Dataset.from_tensors(BATCH).apply(rows_of_process(2, 0))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"apply `fill_rows\(2\)`"):
        the_batch(dataset)
