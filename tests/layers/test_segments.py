import numpy as np

from helpers import array
from keras_transformer.layers import segment_mask
from keras_transformer.models.source import _segment_positions


def test_a_query_sees_the_keys_of_its_segment() -> None:
    generator = np.random.default_rng(0)
    queries, keys = generator.integers(0, 3, (2, 5)), generator.integers(0, 3, (2, 7))
    expected = [[[query == key for key in keys[row]] for query in queries[row]] for row in range(2)]
    np.testing.assert_array_equal(array(segment_mask(queries, keys)), expected)


def test_positions_begin_anew_in_each_segment() -> None:
    segments = np.array([[1, 1, 2, 3, 3, 3, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1]])
    expected = [[0, 1, 0, 0, 1, 2, 0, 0], [0, 1, 2, 3, 4, 5, 6, 7]]
    np.testing.assert_array_equal(array(_segment_positions(segments)), expected)
