"""Several texts or pairs in each row of one length."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.data import EncodedPairs, batch_statistics, pack_texts, translation_dataset


@pytest.mark.parametrize("length", [1, 7, 64, 2000])
def test_the_rows_hold_every_text_once_and_in_order(length: int) -> None:
    rng = np.random.default_rng(0)
    texts = [rng.integers(4, 50, size).tolist() for size in rng.integers(0, 20, 50)]
    rows = pack_texts(tf.ragged.constant(texts, dtype=tf.int32), length)
    inputs, labels = (np.stack(side) for side in zip(*rows.as_numpy_iterator(), strict=True))
    assert inputs.shape == labels.shape == (len(rows), length)
    wanted = [[2, *text] for text in texts], [[*text, 3] for text in texts]
    for side, whole in zip((inputs.ravel(), labels.ravel()), wanted, strict=True):
        flat = [token for text in whole for token in text]
        assert side[: len(flat)].tolist() == flat
        assert side[len(flat) :].tolist() == [0] * (len(side) - len(flat))
        assert len(side) - len(flat) < length


def test_a_model_takes_the_rows() -> None:
    keras.utils.set_random_seed(0)
    model = kt.CausalLM(50, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16)
    model.compile("adam", kt.training.MaskedCrossentropy(), jit_compile=False)
    texts = tf.ragged.constant([[4, 5, 6], [7], [8, 9]] * 20, dtype=tf.int32)
    losses = model.fit(pack_texts(texts, 16).batch(4), epochs=2, verbose=0, shuffle=False).history["loss"]
    assert losses[1] < losses[0]


def test_a_row_needs_a_token() -> None:
    texts = tf.ragged.constant([[4]], dtype=tf.int32)
    with pytest.raises(ValueError, match=r"`length` must be above zero\. Received: length=0\."):
        pack_texts(texts, 0)


Pairs = list[tuple[list[int], list[int]]]


@pytest.fixture
def pairs() -> Pairs:
    rng = np.random.default_rng(0)
    return [tuple(rng.integers(4, 50, rng.integers(0, 12)).tolist() for _ in range(2)) for _ in range(60)]


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
    dataset = translation_dataset(
        encoded(pairs), packed_length=packed_length, tokens_per_batch=1000, shuffle=shuffle
    )
    assert sorted(unpacked(dataset)) == sorted(pairs)


def test_all_batches_have_one_shape_and_padding_is_zero(pairs: Pairs) -> None:
    dataset = translation_dataset(encoded(pairs), packed_length=30, tokens_per_batch=100)
    batches = list(dataset.as_numpy_iterator())
    assert len(batches) == len(dataset) > 1
    for inputs, labels in batches:
        assert {value.shape for value in (*inputs.values(), labels)} == {(3, 30)}
        assert np.array_equal(labels == 0, inputs["decoder_segment_ids"] == 0)
        assert np.array_equal(inputs["encoder_token_ids"] == 0, inputs["encoder_segment_ids"] == 0)
    assert {tensor.shape.as_list() == [3, 30] for tensor in tf.nest.flatten(dataset.element_spec)} == {True}


def test_rows_are_filled() -> None:
    lengths = np.random.default_rng(0).integers(4, 29, (2000, 2))
    pairs = [tuple([5] * length for length in both) for both in lengths]
    dataset = translation_dataset(encoded(pairs), packed_length=256, tokens_per_batch=256, shuffle=False)
    statistics = batch_statistics(dataset)
    assert (statistics.source_padding + statistics.target_padding) / 2 < 0.1


def test_epochs_differ_and_are_repeated_by_their_number(pairs: Pairs) -> None:
    def epochs(first_epoch: int, **options: int) -> list[Pairs]:
        dataset = translation_dataset(
            encoded(pairs), packed_length=30, tokens_per_batch=60, first_epoch=first_epoch, **options
        )
        return [unpacked(dataset) for _ in range(2)]

    first, second = epochs(0)
    assert first != second
    assert epochs(1)[0] == second
    assert epochs(0, seed=1)[0] != first


@pytest.mark.parametrize(("packed_length", "tokens_per_batch"), [(4, 100), (30, 20)])
def test_a_row_holds_the_longest_pair_and_a_batch_a_row(packed_length: int, tokens_per_batch: int) -> None:
    one = encoded([([4, 5, 6, 7], [4])])
    with pytest.raises(ValueError, match=f"packed_length={packed_length}, .*a pair of 5 tokens"):
        translation_dataset(one, packed_length=packed_length, tokens_per_batch=tokens_per_batch)
