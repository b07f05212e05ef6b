from typing import Any

import numpy as np
import pytest
from keras import ops

from keras_transformer.backend import compile_function, product_with_table

rng = np.random.default_rng(0)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_product_with_table(beam_size: int) -> None:
    rows, table = np.arange(15, dtype="int32").reshape(3, 5), rng.normal(size=(11, 5)).astype("float32")

    def product(rows: Any) -> Any:
        return product_with_table(ops.convert_to_tensor(table), beam_size)(ops.cast(rows, "float32"))

    for found in (product(ops.convert_to_tensor(rows)), compile_function(product)(rows)):
        np.testing.assert_allclose(ops.convert_to_numpy(found), rows @ table.T, atol=1e-4)
