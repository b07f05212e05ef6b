"""What `model.fit` needs: loss, metrics, schedules, checkpoints, and how to compile; and `fit`, all of it."""

from keras_transformer.training.averaging import average_weights
from keras_transformer.training.checkpoints import (
    Checkpoint,
    CheckpointState,
    load_model,
    read_checkpoint,
    read_state,
    save_model,
)
from keras_transformer.training.early_stopping import StopEarly
from keras_transformer.training.fitting import Scoring, fit, trained_model
from keras_transformer.training.losses import MaskedCrossentropy, token_crossentropy
from keras_transformer.training.metrics import MaskedAccuracy, Perplexity, TokenMean
from keras_transformer.training.moving_average import (
    EvaluateMovingAverage,
    apply_moving_average,
    moving_average,
)
from keras_transformer.training.r_drop import RDropCrossentropy, symmetric_divergence
from keras_transformer.training.recent_checkpoints import KeepRecent, average_recent
from keras_transformer.training.recipe import compile_model, make_schedule
from keras_transformer.training.run_record import RunRecord
from keras_transformer.training.schedules import InverseSquareRootSchedule, NoamSchedule
from keras_transformer.training.throughput import Throughput

__all__ = [
    "Checkpoint",
    "CheckpointState",
    "EvaluateMovingAverage",
    "InverseSquareRootSchedule",
    "KeepRecent",
    "MaskedAccuracy",
    "MaskedCrossentropy",
    "NoamSchedule",
    "Perplexity",
    "RDropCrossentropy",
    "RunRecord",
    "Scoring",
    "StopEarly",
    "Throughput",
    "TokenMean",
    "apply_moving_average",
    "average_recent",
    "average_weights",
    "compile_model",
    "fit",
    "load_model",
    "make_schedule",
    "moving_average",
    "read_checkpoint",
    "read_state",
    "save_model",
    "symmetric_divergence",
    "token_crossentropy",
    "trained_model",
]
