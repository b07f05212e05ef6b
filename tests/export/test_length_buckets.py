"""Sources padded to few shapes."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import SearchResult
from keras_transformer.export.serving_module import compiled_in_buckets, length_buckets, pad_to_bucket


@pytest.mark.parametrize(
    ("max_length", "wanted"), [(256, [16, 32, 64, 128, 256]), (40, [16, 32, 40]), (16, [16]), (7, [7])]
)
def test_lengths(max_length: int, wanted: list[int]) -> None:
    assert length_buckets(max_length) == wanted


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [((1, 1), (1, 16)), ((3, 16), (4, 16)), ((5, 17), (8, 32)), ((2, 40), (2, 40)), ((0, 0), (1, 16))],
)
def test_shapes_are_those_of_the_next_bucket(shape: tuple[int, int], wanted: tuple[int, int]) -> None:
    token_ids = 4 + np.arange(np.prod(shape), dtype="int32").reshape(shape)
    padded = pad_to_bucket(tf.constant(token_ids), 40).numpy()
    assert padded.shape == wanted
    np.testing.assert_array_equal(padded[: shape[0], : shape[1]], token_ids)
    assert not padded[:, max(shape[1], 1) :].any()
    first = token_ids[0] if shape[0] else [3]  # an ended source without tokens
    assert all((row[: len(first)] == first).all() for row in padded[shape[0] :])


def test_what_was_added_is_dropped_and_few_shapes_are_seen() -> None:
    def search(token_ids: tf.Tensor) -> SearchResult:
        return SearchResult(token_ids[:, None, :3], tf.reduce_sum(tf.cast(token_ids, tf.float32), 1)[:, None])

    compiled = compiled_in_buckets(search, 40)
    for shape in ((3, 5), (0, 4), (1, 17)):
        token_ids = np.ones(shape, "int32")
        result = compiled(tf.constant(token_ids))
        assert result.token_ids.shape == (shape[0], 1, 3)
        np.testing.assert_allclose(result.scores[:, 0], token_ids.sum(1))
