import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data import mask_tokens
from keras_transformer.types import SPECIAL_TOKENS

VOCABULARY_SIZE = 101


def random_ids(shape: tuple[int, ...], mask_id: int | None = None) -> np.ndarray:
    """Draws ids of every kind but the mask."""
    ids = np.random.default_rng(0).integers(0, VOCABULARY_SIZE, shape, dtype=np.int32)
    return np.where(ids == mask_id, len(SPECIAL_TOKENS), ids)


def masked_once(token_ids: np.ndarray, mask_id: int = 100, **options: float) -> tuple[np.ndarray, np.ndarray]:
    dataset = tf.data.Dataset.from_tensors(token_ids)
    dataset = mask_tokens(dataset, mask_id=mask_id, vocabulary_size=VOCABULARY_SIZE, **options)
    [(masked, labels)] = dataset.as_numpy_iterator()
    return masked, labels


def test_only_what_a_label_holds_was_changed() -> None:
    token_ids = random_ids((211, 307), mask_id=100)
    masked, labels = masked_once(token_ids)
    chosen = labels != 0
    np.testing.assert_array_equal(labels[chosen], token_ids[chosen])
    np.testing.assert_array_equal(masked[~chosen], token_ids[~chosen])
    assert labels[chosen].min() >= len(SPECIAL_TOKENS)
    assert masked.dtype == labels.dtype == np.int32


@pytest.mark.parametrize("rate", [0.15, 0.5])
def test_the_shares_are_those_of_bert(rate: float) -> None:
    token_ids = random_ids((503, 997), mask_id=100)
    masked, labels = masked_once(token_ids, rate=rate)
    chosen = labels != 0
    kept = masked[chosen] == token_ids[chosen]
    num_regular = VOCABULARY_SIZE - len(SPECIAL_TOKENS) - 1
    # Three standard deviations of 70,000 draws are below 0.005.
    assert chosen.sum() / (token_ids >= len(SPECIAL_TOKENS)).sum() == pytest.approx(rate, abs=0.005)
    assert np.mean(masked[chosen] == 100) == pytest.approx(0.8, abs=0.005)
    assert np.mean(kept) == pytest.approx(0.1 + 0.1 / num_regular, abs=0.005)


@pytest.mark.parametrize("mask_id", [1, 4, 50, 100])
def test_others_are_every_regular_id_evenly(mask_id: int) -> None:
    token_ids = np.full((503, 997), 60, np.int32)
    masked, _ = masked_once(token_ids, mask_id, rate=1.0)
    counts = np.bincount(masked.ravel(), minlength=VOCABULARY_SIZE)
    regular = [i for i in range(len(SPECIAL_TOKENS), VOCABULARY_SIZE) if i not in (mask_id, 60)]
    expected = 0.1 * token_ids.size / (len(regular) + 1)
    assert set(np.flatnonzero(counts)) == {mask_id, 60, *regular}
    np.testing.assert_allclose(counts[regular], expected, rtol=0.25)


def test_a_rate_of_one_chooses_every_regular_token() -> None:
    _, labels = masked_once(np.array([2, 4, 99, 1, 7, 3, 0, 0], np.int32), rate=1.0)
    np.testing.assert_array_equal(labels, [0, 4, 99, 0, 7, 0, 0, 0])


def test_a_mask_that_is_there_already_is_never_a_label() -> None:
    masked, labels = masked_once(np.array([100, 5, 100], np.int32), rate=1.0)
    np.testing.assert_array_equal(labels, [0, 5, 0])
    np.testing.assert_array_equal(masked[[0, 2]], [100, 100])


def batches(seed: int, *, repeat_before: int = 1) -> tf.data.Dataset:
    dataset = tf.data.Dataset.from_tensor_slices(random_ids((6, 31), mask_id=100)).batch(2)
    dataset = dataset.repeat(repeat_before)
    return mask_tokens(dataset, mask_id=100, vocabulary_size=VOCABULARY_SIZE, seed=seed)


def arrays(dataset: tf.data.Dataset) -> list[np.ndarray]:
    return [np.stack(element) for element in dataset.as_numpy_iterator()]


def test_a_seed_repeats_every_epoch() -> None:
    tf.random.set_seed(1)
    dataset = batches(seed=5)
    first, second = arrays(dataset), arrays(dataset)
    tf.random.set_seed(2)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, arrays(batches(seed=5)))
    assert not np.array_equal(first, arrays(batches(seed=6)))


def test_elements_and_repetitions_differ() -> None:
    same_row = tf.data.Dataset.from_tensors(random_ids((31,), mask_id=100)).repeat(5)
    labels = [y for _, y in arrays(mask_tokens(same_row, mask_id=100, vocabulary_size=VOCABULARY_SIZE))]
    assert all(not np.array_equal(a, b) for a, b in itertools.combinations(labels, 2))
    twice = arrays(batches(seed=5, repeat_before=2))
    assert not np.array_equal(twice[:3], twice[3:])


def test_shapes_and_the_number_of_elements_stay_known() -> None:
    dataset = batches(seed=0)
    assert dataset.cardinality() == 3
    assert [tuple(spec.shape) for spec in dataset.element_spec] == [(None, 31), (None, 31)]


IDS = tf.data.Dataset.from_tensors(np.zeros((2, 3), np.int32))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mask_id": 0}, ValueError, "`mask_id` must be above .* Received: mask_id=0, vocabulary_size=101"),
        ({"mask_id": 101}, ValueError, "below `vocabulary_size`. Received: mask_id=101, vocabulary_size=101"),
        ({"mask_id": 4.0}, TypeError, r"`mask_id` must be an integer. Received: mask_id=4\.0"),
        ({"vocabulary_size": True}, TypeError, "`vocabulary_size` must be an integer. .*=True"),
        ({"mask_id": 4, "vocabulary_size": 5}, ValueError, "at least one id .* vocabulary_size=5, mask_id=4"),
        ({"mask_id": 1, "vocabulary_size": 4}, ValueError, "at least one id .* vocabulary_size=4, mask_id=1"),
        ({"rate": 0.0}, ValueError, r"`rate` must be above zero .*Received: rate=0\.0"),
        ({"rate": 1.5}, ValueError, r"`rate` must be above 0 and at most 1. Received: rate=1\.5"),
        ({"rate": "0.1"}, TypeError, r"`rate` must be a number. Received: rate='0\.1'"),
        ({"seed": 1.5}, TypeError, r"`seed` must be an integer. Received: seed=1\.5"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mask_tokens(IDS, **{"mask_id": 100, "vocabulary_size": VOCABULARY_SIZE, **options})


@pytest.mark.parametrize(
    ("dataset", "error", "message"),
    [
        (
            tf.data.Dataset.from_tensors([[0.5]]),
            TypeError,
            "dense integers .* Received: elements of .*float32",
        ),
        (
            tf.data.Dataset.from_tensors(([[4]], [[4]])),
            TypeError,
            r"dense integers .* Received: elements of \(",
        ),
        (
            tf.data.Dataset.from_tensors(tf.ragged.constant([[4], []])),
            TypeError,
            "elements of RaggedTensorSpec",
        ),
        (tf.data.Dataset.from_tensors(4), ValueError, r"shape \(b, s\) or \(s,\). Received: shape=\(\)"),
    ],
)
def test_other_elements_are_refused(dataset: tf.data.Dataset, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mask_tokens(dataset, mask_id=100, vocabulary_size=VOCABULARY_SIZE)
