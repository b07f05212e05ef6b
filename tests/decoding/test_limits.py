import numpy as np
from keras import ops

from keras_transformer.decoding import Limits
from keras_transformer.decoding.search import is_absent


def test_sources_keep_their_limits() -> None:
    limits = Limits(
        longest=ops.convert_to_tensor([5, 7, 9]), prefix_ids=ops.convert_to_tensor([[1], [2], [3]])
    )
    selected = limits.select(np.array([2, 0]))
    assert is_absent(selected.shortest)
    np.testing.assert_array_equal(ops.convert_to_numpy(selected.longest), [9, 5])
    np.testing.assert_array_equal(ops.convert_to_numpy(selected.prefix_ids), [[3], [1]])


def test_hypotheses_have_the_limits_of_their_source() -> None:
    repeated = Limits(shortest=ops.convert_to_tensor([1, 2])).repeat(3)
    np.testing.assert_array_equal(ops.convert_to_numpy(repeated.shortest), [1, 1, 1, 2, 2, 2])
    assert is_absent(repeated.longest)
