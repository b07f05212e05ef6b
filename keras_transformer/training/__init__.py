"""Training: `fit`, losses, metrics, optimizers, schedules, checkpoints and distribution."""

from keras_transformer.training.adam import Adam
from keras_transformer.training.averages import average_weights, moving_average
from keras_transformer.training.checkpoint import Checkpoint, load_model
from keras_transformer.training.distribution import distributed
from keras_transformer.training.fit import fit
from keras_transformer.training.losses import MaskedCrossentropy
from keras_transformer.training.memory_plan import MemoryPlan, PartMemory, memory_plan
from keras_transformer.training.metrics import MaskedAccuracy, Perplexity, Throughput
from keras_transformer.training.muon import Muon
from keras_transformer.training.r_drop import RDropCrossentropy
from keras_transformer.training.recipe import compile_model
from keras_transformer.training.schedules import InverseSquareRootSchedule, NoamSchedule

__all__ = [
    "Adam",
    "Checkpoint",
    "InverseSquareRootSchedule",
    "MaskedAccuracy",
    "MaskedCrossentropy",
    "MemoryPlan",
    "Muon",
    "NoamSchedule",
    "PartMemory",
    "Perplexity",
    "RDropCrossentropy",
    "Throughput",
    "average_weights",
    "compile_model",
    "distributed",
    "fit",
    "load_model",
    "memory_plan",
    "moving_average",
]
__dir__ = __all__.copy  # `dir()` shows what is public
