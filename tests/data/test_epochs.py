import gc
import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data.batches import ordered_batches, shuffle_batches, shuffled_batches

ENDS = np.array([5, 3, 5, 3, 3, 8, 5, 3, 3, 5, 8], np.int64)
SPLITS = np.array([0, 3, 5, 9, 11], np.int64)
BATCH_SHAPES = [(3, [3]), (2, [3]), (4, [5]), (2, [8])]


def as_lists(dataset: tf.data.Dataset) -> list[list[int]]:
    return [batch.tolist() for batch in dataset.as_numpy_iterator()]


def shapes(batches: list[list[int]]) -> list[tuple[int, list[int]]]:
    return sorted((len(batch), sorted(set(ENDS[batch].tolist()))) for batch in batches)


def test_ordered_batches() -> None:
    dataset = ordered_batches(ENDS, SPLITS)
    assert as_lists(dataset) == [[1, 3, 4], [7, 8], [0, 2, 6, 9], [5, 10]]
    assert as_lists(dataset) == as_lists(dataset)


@pytest.mark.parametrize("epoch", range(5))
def test_shuffled_batches_hold_each_pair_once_in_its_bucket(epoch: int) -> None:
    batches = as_lists(shuffled_batches(ENDS, SPLITS, seed=3, first_epoch=epoch))
    assert sorted(itertools.chain.from_iterable(batches)) == list(range(len(ENDS)))
    assert shapes(batches) == sorted(BATCH_SHAPES)


def test_epochs_differ_in_batches_and_in_their_order() -> None:
    dataset = shuffled_batches(ENDS, SPLITS, seed=0)
    epochs = [as_lists(dataset) for _ in range(20)]
    assert len({str(epoch) for epoch in epochs}) == 20
    assert len({str([len(batch) for batch in epoch]) for epoch in epochs}) > 5
    assert len({str(sorted(sorted(batch) for batch in epoch)) for epoch in epochs}) > 5


def test_the_rows_of_a_single_batch_change_places() -> None:
    keys = np.arange(6)
    epochs = [as_lists(shuffled_batches(keys, np.array([0, 6]), seed=0, first_epoch=k)) for k in range(20)]
    assert all(sorted(batch) == list(range(6)) for [batch] in epochs)
    assert len({str(epoch) for epoch in epochs}) > 15
    assert len({batch[0] for [batch] in epochs}) > 3


def test_same_seed_same_epochs() -> None:
    first, second, other = (shuffled_batches(ENDS, SPLITS, seed=seed) for seed in (7, 7, 8))
    for _ in range(3):
        assert as_lists(first) == as_lists(second)
    assert as_lists(first) != as_lists(other)


def test_the_global_seed_and_the_interleaving_do_not_matter() -> None:
    expected = [as_lists(shuffled_batches(ENDS, SPLITS, seed=1, first_epoch=k)) for k in range(2)]
    tf.random.set_seed(99)
    dataset = shuffled_batches(ENDS, SPLITS, seed=1)
    iterators = [iter(dataset), iter(dataset)]
    rows: list[list[list[int]]] = [[], []]
    for _ in range(len(SPLITS) - 1):
        for row, iterator in zip(rows, iterators, strict=True):
            row.append(next(iterator).numpy().tolist())
    assert rows == expected


def test_goes_on_at_a_later_epoch() -> None:
    dataset = shuffled_batches(ENDS, SPLITS, seed=5)
    epochs = [as_lists(dataset) for _ in range(4)]
    resumed = shuffled_batches(ENDS, SPLITS, seed=5, first_epoch=2)
    assert [as_lists(resumed), as_lists(resumed)] == epochs[2:]


def test_an_epoch_that_was_left_early_counts() -> None:
    dataset = shuffled_batches(ENDS, SPLITS, seed=5)
    next(iter(dataset))
    assert as_lists(dataset) == as_lists(shuffled_batches(ENDS, SPLITS, seed=5, first_epoch=1))


def test_the_counter_lives_as_long_as_the_dataset() -> None:
    dataset = shuffled_batches(ENDS, SPLITS, seed=5).map(lambda batch: batch).prefetch(1)
    gc.collect()
    assert as_lists(dataset) != as_lists(dataset)


def test_shuffles_uniformly() -> None:
    ends, splits = tf.ones([3], tf.int64), tf.constant([0, 1, 3], tf.int64)
    draw = tf.function(lambda seed: shuffle_batches(ends, splits, tf.stack([seed, seed])).flat_values)
    drawn = [tuple(draw(tf.constant(seed, tf.int64)).numpy().tolist()) for seed in range(600)]
    counts = [drawn.count(order) for order in set(drawn)]
    assert len(counts) == 6
    assert min(counts) > 65  # 100 expected, standard deviation 9
