import dataclasses

import pytest
import tensorflow as tf

from keras_transformer.data import (
    EncodedPairs,
    accumulation_weights,
    batch_statistics,
    shard_rows,
    translation_dataset,
)


def counted() -> object:
    first = ({"encoder_token_ids": tf.constant([[9, 9, 3], [9, 3, 0]])}, tf.constant([[8, 3], [3, 0]]))
    second = ({"encoder_token_ids": tf.constant([[9, 9, 9, 3]])}, tf.constant([[8, 8, 8, 8, 3]]))
    shapes = (
        {"encoder_token_ids": tf.TensorSpec([None, None], tf.int32)},
        tf.TensorSpec([None, None], tf.int32),
    )
    return batch_statistics(tf.data.Dataset.from_generator(lambda: [first, second], output_signature=shapes))


def test_counts() -> None:
    assert dataclasses.asdict(counted()) == {
        "num_batches": 2,
        "num_pairs": 3,
        "num_source_tokens": 9,
        "num_target_tokens": 8,
        "source_padding": pytest.approx(1 / 10),
        "target_padding": pytest.approx(1 / 9),
        "max_batch_tokens": 6,
    }


def test_target_tokens_per_batch() -> None:
    assert counted().target_tokens_per_batch == 4


def test_report() -> None:
    assert str(counted()) == (
        "3 pairs in 2 batches; 4 target tokens a batch, at most 6 positions; "
        "padding 10.0% of the source, 11.1% of the target"
    )


def test_measures_a_dataset_of_the_pipeline(encoded: EncodedPairs) -> None:
    statistics = batch_statistics(translation_dataset(encoded, shuffle=False))
    assert (statistics.num_pairs, statistics.num_batches) == (3, 1)
    assert (statistics.num_source_tokens, statistics.num_target_tokens) == (9, 8)
    assert statistics.max_batch_tokens == 12


def test_buckets_reduce_padding(varied: EncodedPairs) -> None:
    bucketed = batch_statistics(translation_dataset(varied, tokens_per_batch=160, shuffle=False))
    one_bucket = batch_statistics(
        translation_dataset(varied, tokens_per_batch=160, shuffle=False, bucket_boundaries=[40])
    )
    assert bucketed.target_padding < 0.1 < one_bucket.target_padding


def test_no_batch() -> None:
    with pytest.raises(ValueError, match=r"at least one batch\. Received: 0 batches"):
        batch_statistics(tf.data.Dataset.range(0))


def test_rows_of_padding_are_no_pairs() -> None:
    ids = tf.ragged.constant([[5, 6], [7], [8]], dtype=tf.int32)
    encoded = EncodedPairs(source=ids, target=ids)
    filled = translation_dataset(encoded, shuffle=False).apply(shard_rows(8))
    assert batch_statistics(filled).num_pairs == 3
    weighed = translation_dataset(encoded, shuffle=False).apply(accumulation_weights(1))
    assert batch_statistics(weighed).num_pairs == 3
