import re
from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer.arguments import (
    as_position,
    check_known_positions,
    check_token_ids,
    known_values,
)


def test_values_are_known_unless_a_graph_is_traced() -> None:
    tensor = keras.ops.convert_to_tensor([1, 2])
    assert known_values(tensor).tolist() == [1, 2]
    assert known_values(keras.KerasTensor((2,))) is None


def test_values_are_not_known_inside_a_compiled_function() -> None:
    seen = []

    def function(tensor: Any) -> Any:
        seen.append(known_values(tensor))
        return tensor

    if keras.backend.backend() == "tensorflow":
        pytest.importorskip("tensorflow").function(function)(keras.ops.ones(2))
    elif keras.backend.backend() == "jax":
        pytest.importorskip("jax").jit(function)(keras.ops.ones(2))
    else:
        pytest.skip("torch traces nothing here")
    assert seen == [None]


def test_token_ids() -> None:
    check_token_ids(np.array([[0, 4]]), 5)
    message = "`token_ids` must be at least 0 and below vocabulary_size=5. Received: 5 at (0, 1)."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_token_ids(np.array([[0, 5]]), 5)
    with pytest.raises(TypeError, match=re.escape("`token_ids` must be integers. Received: dtype=float64.")):
        check_token_ids(np.array([[0.0]]), 5)


def test_positions_of_any_integer_type() -> None:
    assert as_position(np.int64(3)) == 3
    assert type(as_position(np.int64(3))) is int
    assert keras.backend.standardize_dtype(as_position(keras.ops.ones((), "int16")).dtype) == "int32"
    with pytest.raises(ValueError, match=r"`start` must be at least 0\. Received: start=-1\."):
        as_position(-1)


@pytest.mark.parametrize(("positions", "limit"), [([[0, 4]], 4), ([[-1, 0]], 4), ([[-1, 0]], None)])
def test_positions_out_of_range(positions: list[list[int]], limit: int | None) -> None:
    with pytest.raises(ValueError, match=rf"at least 0 and below {limit}\. Received: from"):
        check_known_positions(np.array(positions), limit)
    check_known_positions(np.array([[0, 3]]), 4)
