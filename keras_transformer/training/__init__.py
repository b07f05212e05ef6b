"""What `model.fit` needs: loss, metrics, schedules, checkpoints, and how to compile; and `fit`, all of it."""

from keras_transformer.training.adam import Adam
from keras_transformer.training.checkpoint_reading import average_weights, read_checkpoint, restore_checkpoint
from keras_transformer.training.checkpoint_state import (
    CheckpointState,
    CheckpointWarning,
    backend_random_state,
    load_model,
    random_state,
    read_state,
    save_model,
    set_backend_random_state,
    set_random_state,
)
from keras_transformer.training.checkpoints import (
    Checkpoint,
    KeepRecent,
    RunRecord,
    StopEarly,
    average_recent,
)
from keras_transformer.training.distribution import check_engine, claim_cores, distributed
from keras_transformer.training.fitting import RecentBatches, Scoring, StopOnNonFinite, fit, trained_model
from keras_transformer.training.losses import MaskedCrossentropy, token_crossentropy
from keras_transformer.training.metrics import MaskedAccuracy, Perplexity, Throughput, TokenMean
from keras_transformer.training.moving_average import (
    EvaluateMovingAverage,
    apply_moving_average,
    moving_average,
)
from keras_transformer.training.r_drop import RDropCrossentropy, symmetric_divergence
from keras_transformer.training.recipe import compile_model, jit_compiles, make_schedule
from keras_transformer.training.schedules import InverseSquareRootSchedule, NoamSchedule

__all__ = [
    "Adam",
    "Checkpoint",
    "CheckpointState",
    "CheckpointWarning",
    "EvaluateMovingAverage",
    "InverseSquareRootSchedule",
    "KeepRecent",
    "MaskedAccuracy",
    "MaskedCrossentropy",
    "NoamSchedule",
    "Perplexity",
    "RDropCrossentropy",
    "RecentBatches",
    "RunRecord",
    "Scoring",
    "StopEarly",
    "StopOnNonFinite",
    "Throughput",
    "TokenMean",
    "apply_moving_average",
    "average_recent",
    "average_weights",
    "backend_random_state",
    "check_engine",
    "claim_cores",
    "compile_model",
    "distributed",
    "fit",
    "jit_compiles",
    "load_model",
    "make_schedule",
    "moving_average",
    "random_state",
    "read_checkpoint",
    "read_state",
    "restore_checkpoint",
    "save_model",
    "set_backend_random_state",
    "set_random_state",
    "symmetric_divergence",
    "token_crossentropy",
    "trained_model",
]
