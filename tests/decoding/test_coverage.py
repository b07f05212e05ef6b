"""The coverage penalty by hand."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding.beam import SMALLEST_COVERAGE, coverage_penalty


def test_the_penalty_by_hand() -> None:
    sums = ops.convert_to_tensor([[0.5, 1.0, 2.5, 0.25], [0.5, 0.5, 0.5, 7.0]])
    mask = ops.convert_to_tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    penalty = coverage_penalty(sums, mask, 0.2)
    expected = [0.2 * (np.log(0.5) + np.log(0.25)), 0.2 * 2 * np.log(0.5)]
    np.testing.assert_allclose(ops.convert_to_numpy(penalty), expected, rtol=1e-6)


def test_positions_that_were_never_looked_at_have_a_finite_penalty() -> None:
    penalty = coverage_penalty(ops.zeros((1, 3)), ops.convert_to_tensor([[True, True, False]]), 1.0)
    np.testing.assert_allclose(ops.convert_to_numpy(penalty), [2 * np.log(SMALLEST_COVERAGE)], rtol=1e-6)


def test_one_source_can_have_several_hypotheses() -> None:
    sums = ops.convert_to_tensor([[0.5, 0.1], [0.25, 0.1]])
    penalty = coverage_penalty(sums, ops.convert_to_tensor([[True, False]]), 1.0)
    np.testing.assert_allclose(ops.convert_to_numpy(penalty), np.log([0.5, 0.25]), rtol=1e-6)


def test_a_negative_penalty_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`beta` must be .* Received: beta=-0\.5\."):
        coverage_penalty(ops.ones((1, 1)), ops.ones((1, 1)), -0.5)
