"""The one room that asks which backend runs. Each function has one meaning, and a fast body if it helps."""

from keras_transformer.backend.adam import adam_update, finished_gradients
from keras_transformer.backend.attention import (
    MINUS_INFINITY,
    attend_step,
    flatten_kernel,
    fused_attention,
    has_fused_attention,
    masked_softmax,
    project,
    sizes_of,
)
from keras_transformer.backend.batch_parts import num_cores, train_on_parts
from keras_transformer.backend.compiler import (
    compile_function,
    compile_rounds,
    in_compiler,
)
from keras_transformer.backend.distribution import device_scope
from keras_transformer.backend.formulas import drop, layer_normalization, position_angles, trains_by_hand
from keras_transformer.backend.gather import first_largest, take_each, take_rows, top_k
from keras_transformer.backend.gradients import add_at_labels, after, sum_over_replicas
from keras_transformer.backend.loop import (
    make_buffer,
    product_with_table,
    slots_of,
    weight_now,
    write_position,
)
from keras_transformer.backend.random import draw_uniforms, generator_state, set_generator_state

__all__ = [
    "MINUS_INFINITY",
    "adam_update",
    "add_at_labels",
    "after",
    "attend_step",
    "compile_function",
    "compile_rounds",
    "device_scope",
    "draw_uniforms",
    "drop",
    "finished_gradients",
    "first_largest",
    "flatten_kernel",
    "fused_attention",
    "generator_state",
    "has_fused_attention",
    "in_compiler",
    "layer_normalization",
    "make_buffer",
    "masked_softmax",
    "num_cores",
    "position_angles",
    "product_with_table",
    "project",
    "set_generator_state",
    "sizes_of",
    "slots_of",
    "sum_over_replicas",
    "take_each",
    "take_rows",
    "top_k",
    "train_on_parts",
    "trains_by_hand",
    "weight_now",
    "write_position",
]
