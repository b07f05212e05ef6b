"""What `model.fit` needs: loss, metrics, schedules, checkpoints, and how to compile."""

from keras_transformer.training.checkpoints import (
    Checkpoint,
    CheckpointState,
    load_model,
    read_checkpoint,
    read_state,
    save_model,
)
from keras_transformer.training.losses import MaskedCrossentropy, token_crossentropy
from keras_transformer.training.metrics import MaskedAccuracy, Perplexity
from keras_transformer.training.recipe import compile_model, make_schedule
from keras_transformer.training.schedules import InverseSquareRootSchedule, NoamSchedule

__all__ = [
    "Checkpoint",
    "CheckpointState",
    "InverseSquareRootSchedule",
    "MaskedAccuracy",
    "MaskedCrossentropy",
    "NoamSchedule",
    "Perplexity",
    "compile_model",
    "load_model",
    "make_schedule",
    "read_checkpoint",
    "read_state",
    "save_model",
    "token_crossentropy",
]
