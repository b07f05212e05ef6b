import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data import regroup_by_length, translation_dataset
from keras_transformer.data.transformations import Transformation
from keras_transformer.text import CharacterTokenizer

Batches = list[tuple[list[list[int]], list[list[int]]]]
SIZES = [3, 7, 1, 4, 5]


def random_batches() -> tf.data.Dataset:
    """Batches whose targets are their sources with one token more."""
    rng = np.random.default_rng(0)
    rows = [rng.integers(4, 99, length).tolist() for length in rng.integers(1, 30, sum(SIZES))]
    source, target = (tf.ragged.constant(part, tf.int32) for part in (rows, [[*row, 3] for row in rows]))
    places = tf.RaggedTensor.from_row_lengths(tf.range(sum(SIZES)), SIZES)
    return tf.data.Dataset.from_tensor_slices((tf.gather(source, places), tf.gather(target, places)))


def regrouped(step: Transformation) -> Batches:
    return [(source.to_list(), target.to_list()) for source, target in random_batches().apply(step)]


def rows_of(batches: Batches) -> list[tuple[list[int], list[int]]]:
    return sorted(pair for source, target in batches for pair in zip(source, target, strict=True))


def test_pairs_stay_together_and_none_is_lost() -> None:
    batches = regrouped(regroup_by_length())
    assert rows_of(batches) == rows_of(regrouped(lambda dataset: dataset))
    assert all([*row, 3] == answer for row, answer in rows_of(batches))


def test_batches_of_many_rows_get_the_short_ones() -> None:
    batches = sorted((source for source, _ in regrouped(regroup_by_length())), key=lambda rows: -len(rows))
    assert [len(rows) for rows in batches] == sorted(SIZES, reverse=True)
    lengths = [len(row) for rows in batches for row in rows]
    assert lengths == sorted(lengths)


def test_only_batches_that_are_taken_together_share_rows() -> None:
    batches, before = regrouped(regroup_by_length(2)), regrouped(lambda dataset: dataset)
    for start in (0, 2, 4):
        assert rows_of(batches[start : start + 2]) == rows_of(before[start : start + 2])
    assert regrouped(regroup_by_length(1)) != before  # in order of length
    assert [rows_of([batch]) for batch in regrouped(regroup_by_length(1))] == [
        rows_of([batch]) for batch in before
    ]


def test_the_order_is_that_of_the_seed() -> None:
    orders = [[len(rows) for rows, _ in regrouped(regroup_by_length(seed=seed))] for seed in (1, 1, 2, 3, 4)]
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) > 2
    assert any(order != sorted(order, reverse=True) for order in orders)


def test_a_number_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="num_batches=0"):
        regroup_by_length(0)


def test_noise_that_lengthens_rows_costs_little_padding() -> None:
    tokenizer = CharacterTokenizer(["a"])
    lengths = np.random.default_rng(1).integers(1, 30, 500)

    def lengthen(dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Repeat each row one to three times."""

        def repeat(source: tf.RaggedTensor, target: tf.RaggedTensor) -> tuple[tf.RaggedTensor, ...]:
            times = 1 + tf.range(source.nrows()) % 3
            longer = tf.gather(source, tf.repeat(tf.range(source.nrows()), times))
            return (tf.RaggedTensor.from_row_lengths(longer, times).merge_dims(1, 2),) * 2

        return dataset.map(repeat)

    def padded_share(**options: bool) -> float:
        pairs = [("a" * length, "a" * length) for length in lengths]
        dataset = translation_dataset(
            pairs, tokenizer, tokenizer, tokens_per_batch=200, noise=[lengthen], **options
        )
        labels = [labels for _, labels in dataset.as_numpy_iterator()]
        return sum(np.sum(batch == 0) for batch in labels) / sum(batch.size for batch in labels)

    assert padded_share() < 0.1
    assert padded_share(shuffle=False) > 0.2  # which stay in their order
