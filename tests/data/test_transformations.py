import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data.encoding import EncodedPairs
from keras_transformer.data.transformations import gather_pairs, pad_batches, teacher_forcing
from keras_transformer.text import SPECIAL_IDS

POSITIONS = tf.ragged.constant([[2, 0], [1]], tf.int64)


@pytest.fixture
def rows(encoded: EncodedPairs) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(POSITIONS).apply(gather_pairs(encoded))


def test_gathers_the_pairs_of_each_batch(rows: tf.data.Dataset) -> None:
    batches = [(source.to_list(), target.to_list()) for source, target in rows]
    assert batches == [([[12, 12], [10]], [[12, 12], [10, 10]]), ([[11, 11, 11]], [[11]])]


def test_teacher_forcing_shifts_by_one(rows: tf.data.Dataset) -> None:
    inputs, labels = next(iter(rows.apply(teacher_forcing)))
    assert inputs["encoder_token_ids"].to_list() == [[12, 12, SPECIAL_IDS.end], [10, SPECIAL_IDS.end]]
    assert inputs["decoder_token_ids"].to_list() == [[SPECIAL_IDS.start, 12, 12], [SPECIAL_IDS.start, 10, 10]]
    assert labels.to_list() == [[12, 12, SPECIAL_IDS.end], [10, 10, SPECIAL_IDS.end]]


def test_pads_to_the_longest_of_each_side(rows: tf.data.Dataset) -> None:
    inputs, labels = next(iter(rows.apply(teacher_forcing).apply(pad_batches()).skip(1)))
    np.testing.assert_array_equal(inputs["encoder_token_ids"], [[11, 11, 11, SPECIAL_IDS.end]])
    np.testing.assert_array_equal(inputs["decoder_token_ids"], [[SPECIAL_IDS.start, 11]])
    np.testing.assert_array_equal(labels, [[11, SPECIAL_IDS.end]])


def test_pads_with_zeros(rows: tf.data.Dataset) -> None:
    inputs, _ = next(iter(rows.apply(teacher_forcing).apply(pad_batches())))
    np.testing.assert_array_equal(
        inputs["encoder_token_ids"], [[12, 12, SPECIAL_IDS.end], [10, SPECIAL_IDS.end, 0]]
    )


@pytest.mark.parametrize(("boundaries", "widths"), [([3, 7], [3, 7]), ([4, 5], [4, 4]), ([9], [9, 9])])
def test_pads_both_sides_to_a_boundary(
    rows: tf.data.Dataset, boundaries: list[int], widths: list[int]
) -> None:
    dataset = rows.apply(teacher_forcing).apply(pad_batches(boundaries))
    for (inputs, labels), width in zip(dataset, widths, strict=True):
        assert {array.shape[1] for array in (*inputs.values(), labels)} == {width}


def test_rows_beyond_all_boundaries_are_padded_to_the_longest() -> None:
    ids = tf.ragged.constant([[4] * 9, [5]], dtype=tf.int32)
    dataset = tf.data.Dataset.from_tensors((ids, ids)).apply(teacher_forcing)
    [(inputs, labels)] = dataset.apply(pad_batches([3, 7]))
    assert {tuple(ids.shape) for ids in (*inputs.values(), labels)} == {(2, 10)}


@pytest.mark.parametrize("boundaries", [None, [8]])
def test_element_spec_has_rank_two(rows: tf.data.Dataset, boundaries: list[int] | None) -> None:
    spec = rows.apply(teacher_forcing).apply(pad_batches(boundaries)).element_spec
    matrix = tf.TensorSpec([None, None], tf.int32)
    assert spec == ({"encoder_token_ids": matrix, "decoder_token_ids": matrix}, matrix)
