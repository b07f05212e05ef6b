"""Batches are remembered, and are not changed by it."""

import numpy as np
import pytest

from keras_transformer.training import RecentBatches


def test_what_is_watched_is_not_changed() -> None:
    tf = pytest.importorskip("tensorflow")
    recent = RecentBatches()
    for lists in (({"b": [[1, 2]], "a": [[3]]}, [[4]]), [[5]]):
        dataset = tf.data.Dataset.from_tensors(lists).repeat(2)
        elements = next(dataset.as_numpy_iterator())
        watched = recent.watch(dataset)
        assert len(watched) == 2
        for element in watched.as_numpy_iterator():
            tf.nest.map_structure(np.testing.assert_array_equal, element, elements)
    assert [array.tolist() for array in recent.arrays(1) or []] == [[[5]]]
    assert recent.arrays(2) is None
    assert recent.watch([1, 2]) == [1, 2]


def test_old_batches_are_forgotten() -> None:
    tf = pytest.importorskip("tensorflow")
    recent = RecentBatches()
    list(recent.watch(tf.data.Dataset.range(100).batch(1)))
    assert recent.arrays(0) is None
    assert [array.tolist() for array in recent.arrays(99) or []] == [[99]]


def test_large_batches_are_forgotten_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    tf = pytest.importorskip("tensorflow")
    monkeypatch.setattr("keras_transformer.training.fitting._NUM_BYTES", 24)
    recent = RecentBatches()
    list(recent.watch(tf.data.Dataset.range(5).batch(1)))  # 8 bytes each
    assert [number for number in range(5) if recent.arrays(number)] == [2, 3, 4]


def test_what_cannot_be_kept_or_numbered_is_not_watched() -> None:
    tf = pytest.importorskip("tensorflow")
    for dataset in (
        tf.data.Dataset.range(3).repeat(),
        tf.data.Dataset.from_tensors(tf.ragged.constant([[1], [2, 3]])),
    ):
        assert RecentBatches().watch(dataset) is dataset
