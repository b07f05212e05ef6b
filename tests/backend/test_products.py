from typing import Any

import numpy as np
import pytest
from keras import ops

from keras_transformer.backend import batched_product, compile_function, product_with_table

rng = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("transposed", [False, True])
def test_batched_product(transposed: bool, dtype: str) -> None:
    first, second = rng.normal(size=(2, 3, 5, 7)), rng.normal(size=(2, 3, 7, 11))
    given = second.transpose(0, 1, 3, 2) if transposed else second
    found = batched_product(ops.cast(first, dtype), ops.cast(given, dtype), transposed=transposed)
    tolerance = 1e-5 if dtype == "float32" else 0.1
    np.testing.assert_allclose(
        ops.convert_to_numpy(ops.cast(found, "float32")), first @ second, atol=tolerance
    )


@pytest.mark.parametrize("beam_size", [1, 3])
def test_product_with_table(beam_size: int) -> None:
    rows, table = np.arange(15, dtype="int32").reshape(3, 5), rng.normal(size=(11, 5)).astype("float32")

    def product(rows: Any) -> Any:
        return product_with_table(ops.convert_to_tensor(table), beam_size)(ops.cast(rows, "float32"))

    for found in (product(ops.convert_to_tensor(rows)), compile_function(product)(rows)):
        np.testing.assert_allclose(ops.convert_to_numpy(found), rows @ table.T, atol=1e-4)
