"""The one room that asks which backend runs. Each function has one meaning, and a fast body if it helps."""

from keras_transformer._backend.adam import adam_update
from keras_transformer._backend.attention import attend_step, fused_attention, masked_softmax
from keras_transformer._backend.batch_parts import train_on_parts
from keras_transformer._backend.compiler import compile_function
from keras_transformer._backend.distribution import Devices
from keras_transformer._backend.formulas import drop, layer_normalization, position_angles
from keras_transformer._backend.gather import assign_rows, largest, shape_of, take
from keras_transformer._backend.gradients import add_at_labels, finished
from keras_transformer._backend.loop import PositionBuffer, weights_now
from keras_transformer._backend.projection import project
from keras_transformer._backend.random import GeneratorState, draw_normal, draw_uniforms

__all__ = [
    "Devices",
    "GeneratorState",
    "PositionBuffer",
    "adam_update",
    "add_at_labels",
    "assign_rows",
    "attend_step",
    "compile_function",
    "draw_normal",
    "draw_uniforms",
    "drop",
    "finished",
    "fused_attention",
    "largest",
    "layer_normalization",
    "masked_softmax",
    "position_angles",
    "project",
    "shape_of",
    "take",
    "train_on_parts",
    "weights_now",
]
__dir__ = __all__.copy  # `dir()` shows what is public
