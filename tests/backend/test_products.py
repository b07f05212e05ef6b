import numpy as np
import pytest
from keras import ops

from keras_transformer.backend import batched_product, product_with_transpose

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


def test_product_with_transpose() -> None:
    rows, table = rng.normal(size=(3, 5)).astype("float32"), rng.normal(size=(11, 5)).astype("float32")
    found = product_with_transpose(ops.convert_to_tensor(rows), ops.convert_to_tensor(table))
    np.testing.assert_allclose(ops.convert_to_numpy(found), rows @ table.T, atol=1e-5)
