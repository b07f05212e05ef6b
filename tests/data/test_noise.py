from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data import drop_tokens, permute_tokens, translation_dataset
from keras_transformer.data.transformations import Transformation
from keras_transformer.text import CharacterTokenizer

IDS = tf.ragged.constant([list(range(4, 24)), [7], [], [9, 8, 7, 6]] * 50, dtype=tf.int32)


def changed(step: Transformation, num_batches: int = 1) -> list[list[list[int]]]:
    """The sources of some batches after a step, which must leave the targets alone."""
    dataset = tf.data.Dataset.from_tensors((IDS, IDS)).repeat(num_batches).apply(step)
    sources = []
    for source, target in dataset:
        assert target.to_list() == IDS.to_list()
        assert source.dtype == tf.int32
        sources.append(source.to_list())
    return sources


def test_dropped_tokens_leave_the_others_in_order() -> None:
    [rows] = changed(drop_tokens(0.3))
    for row, whole in zip(rows, IDS.to_list(), strict=True):
        assert row == [token for token in whole if token in row]
        assert bool(row) == bool(whole)
    kept = np.mean([len(row) for row in rows[::4]]) / 20
    assert abs(kept - 0.7) < 4 * (0.3 * 0.7 / 1000) ** 0.5


def test_at_least_one_token_stays() -> None:
    [rows] = changed(drop_tokens(0.999))
    assert {len(row) for row in rows[::4]} <= {1, 2}
    assert all(rows[1::4])


def test_permuted_tokens_stay_near_their_place() -> None:
    [rows] = changed(permute_tokens(3))
    moved = []
    for row, whole in zip(rows, IDS.to_list(), strict=True):
        assert Counter(row) == Counter(whole)
        moved += [abs(place - whole.index(token)) for place, token in enumerate(row)]
    assert max(moved) == 3
    assert np.mean(moved) > 0.5


@pytest.mark.parametrize("step", [drop_tokens(0.0), permute_tokens(0)])
def test_no_noise_changes_nothing(step: Transformation) -> None:
    assert changed(step) == [IDS.to_list()]


@pytest.mark.parametrize("make", [drop_tokens, permute_tokens])
def test_the_noise_is_that_of_the_seed_and_of_the_place_of_the_batch(make: object) -> None:
    amount = 0.5 if make is drop_tokens else 4
    first, second = changed(make(amount, seed=1), 2)
    assert first != second
    assert [first, second] == changed(make(amount, seed=1), 2)
    assert first != changed(make(amount, seed=2))[0]


def test_it_comes_before_the_end_token_and_the_padding() -> None:
    tokenizer = CharacterTokenizer(["a", "b"])
    pairs = [("ab" * 5, "ab" * 5)] * 20
    dataset = translation_dataset(pairs, tokenizer, tokenizer, noise=[drop_tokens(0.5), permute_tokens(2)])
    [(inputs, labels)] = dataset.as_numpy_iterator()
    source = inputs["encoder_token_ids"]
    assert np.all(np.count_nonzero(source == 3, axis=1) == 1)
    assert source.shape[1] < labels.shape[1] or np.any(source == 0)
    assert np.all(labels == labels[0])


def test_wrong_numbers() -> None:
    with pytest.raises(ValueError, match=r"`rate` must be at least 0 and below 1\. Received: rate=1\."):
        drop_tokens(1)
    with pytest.raises(ValueError, match=r"`distance` must be at least 0\. Received: distance=-1\."):
        permute_tokens(-1)
