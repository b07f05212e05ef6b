import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data import EncodedPairs, packed_dataset
from keras_transformer.data.pair_packing import pack_rows

Pairs = list[tuple[list[int], list[int]]]


@pytest.fixture
def pairs() -> Pairs:
    rng = np.random.default_rng(0)
    return [
        tuple(rng.integers(4, 50, rng.integers(0, 12)).tolist() for _ in range(2))  # type: ignore[misc]
        for _ in range(60)
    ]


def encoded(pairs: Pairs) -> EncodedPairs:
    source, target = (tf.ragged.constant(list(side), tf.int32) for side in zip(*pairs, strict=True))
    return EncodedPairs(source=source, target=target)


def unpacked(dataset: tf.data.Dataset) -> Pairs:
    """The pairs of all rows, and a check that inputs and labels belong together."""
    found = []
    for inputs, labels in dataset.as_numpy_iterator():
        for number in range(1, inputs["encoder_segment_ids"].max(initial=0) + 1):
            for row in range(len(labels)):
                sides = [inputs[f"{side}_segment_ids"][row] == number for side in ("encoder", "decoder")]
                source, shifted, target = (
                    ids[row][side].tolist()
                    for ids, side in zip(
                        (inputs["encoder_token_ids"], inputs["decoder_token_ids"], labels),
                        (sides[0], sides[1], sides[1]),
                        strict=True,
                    )
                )
                if source:
                    assert source[-1] == target[-1] == 3
                    assert shifted == [2, *target[:-1]]
                    found.append((source[:-1], target[:-1]))
    return found


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("packed_length", [12, 30, 1000])
def test_the_rows_hold_every_pair_once(pairs: Pairs, packed_length: int, shuffle: bool) -> None:
    dataset = packed_dataset(encoded(pairs), packed_length, tokens_per_batch=1000, shuffle=shuffle)
    assert sorted(unpacked(dataset)) == sorted(pairs)


def test_all_batches_have_one_shape_and_padding_is_zero(pairs: Pairs) -> None:
    dataset = packed_dataset(encoded(pairs), 30, tokens_per_batch=100)
    batches = list(dataset.as_numpy_iterator())
    assert len(batches) == len(dataset) > 1
    for inputs, labels in batches:
        assert {value.shape for value in (*inputs.values(), labels)} == {(3, 30)}
        assert np.array_equal(labels == 0, inputs["decoder_segment_ids"] == 0)
        assert np.array_equal(inputs["encoder_token_ids"] == 0, inputs["encoder_segment_ids"] == 0)
    assert {tensor.shape.as_list() == [3, 30] for tensor in tf.nest.flatten(dataset.element_spec)} == {True}


def test_rows_are_filled() -> None:
    lengths = np.random.default_rng(0).integers(5, 30, (2000, 2))
    rows = pack_rows(lengths, range(2000), 256)
    filled = np.add.reduceat(lengths[rows.pairs], rows.splits[:-1])
    assert filled.max() <= 256
    assert filled.mean() > 0.9 * 256


def test_epochs_differ_and_are_repeated_by_their_number(pairs: Pairs) -> None:
    def epochs(first_epoch: int, **options: int) -> list[Pairs]:
        dataset = packed_dataset(encoded(pairs), 30, tokens_per_batch=60, first_epoch=first_epoch, **options)
        return [unpacked(dataset) for _ in range(2)]

    first, second = epochs(0)
    assert first != second
    assert epochs(1)[0] == second
    assert epochs(0, seed=1)[0] != first


@pytest.mark.parametrize(("packed_length", "tokens_per_batch"), [(4, 100), (30, 20)])
def test_a_row_holds_the_longest_pair_and_a_batch_a_row(packed_length: int, tokens_per_batch: int) -> None:
    with pytest.raises(ValueError, match=f"packed_length={packed_length}, .*a pair of 5 tokens"):
        packed_dataset(encoded([([4, 5, 6, 7], [4])]), packed_length, tokens_per_batch=tokens_per_batch)
