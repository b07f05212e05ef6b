"""The one room that asks which backend runs. Each function has one meaning, and a fast body if it helps."""

from keras_transformer.backend.adam import adam_update, finished_gradients
from keras_transformer.backend.batch_parts import num_cores, train_on_parts
from keras_transformer.backend.buffers import make_buffer, write_rows, written_in_place
from keras_transformer.backend.compiler import (
    compile_function,
    compile_rounds,
    has_fast_doubles,
    in_compiler,
    without_doubles,
    writes_slices,
)
from keras_transformer.backend.distribution import device_scope
from keras_transformer.backend.gather import first_largest, largest, take_each, take_rows, top_k
from keras_transformer.backend.gradients import add_at_labels, after, sum_over_replicas
from keras_transformer.backend.loop_constants import (
    fixed_weights,
    kept_while_decoding,
    prepare,
    prepared,
    weight_now,
    weights_now,
)
from keras_transformer.backend.products import batched_product, product_with_table, product_with_transpose
from keras_transformer.backend.random import (
    draw_uniforms,
    fresh_seed,
    generator_state,
    random_bits,
    set_generator_state,
)

__all__ = [
    "adam_update",
    "add_at_labels",
    "after",
    "batched_product",
    "compile_function",
    "compile_rounds",
    "device_scope",
    "draw_uniforms",
    "finished_gradients",
    "first_largest",
    "fixed_weights",
    "fresh_seed",
    "generator_state",
    "has_fast_doubles",
    "in_compiler",
    "kept_while_decoding",
    "largest",
    "make_buffer",
    "num_cores",
    "prepare",
    "prepared",
    "product_with_table",
    "product_with_transpose",
    "random_bits",
    "set_generator_state",
    "sum_over_replicas",
    "take_each",
    "take_rows",
    "top_k",
    "train_on_parts",
    "weight_now",
    "weights_now",
    "without_doubles",
    "write_rows",
    "writes_slices",
    "written_in_place",
]
