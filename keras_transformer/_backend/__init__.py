"""Backend-specific code; no other package asks which backend runs.

Each function has one meaning on every backend, with a faster implementation where a backend allows one.
"""

from keras_transformer._backend.adam import adam_update
from keras_transformer._backend.attention import attend_step, fused_attention, masked_softmax
from keras_transformer._backend.batches import share_rows, weigh_updates
from keras_transformer._backend.compilation_cache import keep_compilations
from keras_transformer._backend.compiler import (
    begins_datasets_early,
    build_optimizer,
    compile_function,
    compiles_each_shape,
    quick_start,
)
from keras_transformer._backend.cores import train_on_cores
from keras_transformer._backend.distribution import check_engine, device_scope, row_shares, sum_over_replicas
from keras_transformer._backend.formulas import fast_dropout, layer_normalization, position_angles
from keras_transformer._backend.gradients import add_at_labels, differentiates_gradients, order_after
from keras_transformer._backend.indexing import assign_rows, dynamic_shape, gather, largest
from keras_transformer._backend.loop import PositionBuffer, snapshot_weights
from keras_transformer._backend.projection import project
from keras_transformer._backend.random import GeneratorState, draw_normal, draw_uniforms
from keras_transformer._backend.rematerialization import rematerialize
from keras_transformer._backend.shapes import makes_values, optimizer_state, shapes_only

__all__ = [
    "GeneratorState",
    "PositionBuffer",
    "adam_update",
    "add_at_labels",
    "assign_rows",
    "attend_step",
    "begins_datasets_early",
    "build_optimizer",
    "check_engine",
    "compile_function",
    "compiles_each_shape",
    "device_scope",
    "differentiates_gradients",
    "draw_normal",
    "draw_uniforms",
    "dynamic_shape",
    "fast_dropout",
    "fused_attention",
    "gather",
    "keep_compilations",
    "largest",
    "layer_normalization",
    "makes_values",
    "masked_softmax",
    "optimizer_state",
    "order_after",
    "position_angles",
    "project",
    "quick_start",
    "rematerialize",
    "row_shares",
    "shapes_only",
    "share_rows",
    "snapshot_weights",
    "sum_over_replicas",
    "train_on_cores",
    "weigh_updates",
]
__dir__ = __all__.copy  # `dir()` shows what is public
