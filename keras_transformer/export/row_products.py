"""Products of a step by operations that TensorFlow has no function for."""

from typing import Any

import tensorflow as tf
from tensorflow.python.framework import kernels  # nothing public tells which operations there are

from keras_transformer._backend import RowProduct

# It comes with oneDNN, whether that is switched on or not.
_OF_INTEGERS = "_QuantizedMatMul"
_LARGEST_INTEGER = 63
_Attribute = tf.compat.v1.AttrValue


class _FusedProduct(RowProduct):
    """One on a single thread: one operation for the product and the sum."""

    # It takes 10 microseconds for a row from 256 to 256 numbers, `tf.matmul` 22; for 16 rows both take the
    # same. Where threads share the operations it is slower.
    def _product(self, rows: tf.Tensor) -> tf.Tensor:
        if self._bias is None or self._matrix.dtype != tf.float32:
            return super()._product(rows)
        attributes = {"T": _Attribute(type=tf.float32.as_datatype_enum), "num_args": _Attribute(i=1)}
        return _operation("_FusedMatMul", [rows, self._matrix, self._bias], [b"BiasAdd"], attributes)


class _IntegerProduct:
    """A `RowProduct` of integers: each row is rounded by its own largest number to 8 bits.

    TensorFlow packs the matrix once and keeps it: nothing may assign to it.
    """

    def __init__(self, matrix: tf.Tensor, largest: tf.Tensor, bias: tf.Tensor | None) -> None:
        """Take int8 `(i, o)` and float32 `(o,)` from `rounded`, and float32 `(o,)` or None."""
        self._matrix, self._bias = matrix, bias
        # A bias of the integers, the range of the rows, and that of the columns.
        self._scales = tf.zeros_like(largest), -1.0, 1.0, -largest, largest

    @staticmethod
    def is_known() -> bool:
        """Return whether this TensorFlow has the operation."""
        return bool(kernels.get_registered_kernels_for_op(_OF_INTEGERS).kernel)

    @staticmethod
    def rounded(matrix: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Round each column of a matrix; return integers, and what 127 would stand for."""
        # To 7 bits: processors without VNNI add two products of 8 bits in 16, which is too few.
        largest = tf.reduce_max(tf.abs(matrix), axis=0)
        integers = tf.round(tf.math.divide_no_nan(matrix, largest) * _LARGEST_INTEGER)
        return tf.cast(integers, tf.int8), largest * (127 / _LARGEST_INTEGER)

    def __call__(self, rows: tf.Tensor) -> tf.Tensor:
        """Multiply rows `(r, i)`."""
        largest = tf.reduce_max(tf.abs(rows), axis=-1, keepdims=True)
        scaled = tf.math.divide_no_nan(rows, largest)
        rounding = {"mode": "SCALED", "round_mode": "HALF_TO_EVEN"}
        integers = tf.quantization.quantize(scaled, -1.0, 1.0, tf.qint8, **rounding).output
        product = _integer_operation(integers, tf.bitcast(self._matrix, tf.qint8), *self._scales) * largest
        return product if self._bias is None else product + self._bias


def _integer_operation(*inputs: tf.Tensor | float) -> tf.Tensor:
    tensors = [tf.convert_to_tensor(each) for each in inputs]
    types = [each.dtype.as_datatype_enum for each in tensors]
    # The types are those of the matrices, two times int8, and of the bias and the product, float32.
    attributes = {
        **dict.fromkeys(("T1", "T2"), _Attribute(type=types[0])),
        **dict.fromkeys(("Tdevice_inputs", "Tdevice_outputs"), _Attribute(list={})),
        "Tout": _Attribute(type=types[2]),
        "Thost_inputs": _Attribute(list=_Attribute.ListValue(type=types)),
        "Thost_outputs": _Attribute(list=_Attribute.ListValue(type=types[2:3])),
    }
    return _operation(_OF_INTEGERS, tensors, [b"BiasAdd", b"Dequantize"], attributes)


def _operation(
    name: str, tensors: list[tf.Tensor], fused: list[bytes], attributes: dict[str, Any]
) -> tf.Tensor:
    attributes["fused_ops"] = _Attribute(list=_Attribute.ListValue(s=fused))
    # The name of a node must not begin with an underscore, as that of the operation does.
    node = {"name": "product", "attrs": attributes}
    [product] = tf.compat.v1.get_default_graph().create_op(name, tensors, [tf.float32], **node).outputs
    product.set_shape((tensors[0].shape[0], tensors[1].shape[1]))
    return product
