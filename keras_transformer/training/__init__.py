"""What `model.fit` needs: loss, metrics, schedules, checkpoints, and how to compile."""

from keras_transformer.training.checkpoint_state import CheckpointState, CheckpointWarning, read_state
from keras_transformer.training.checkpoints import Checkpoint, read_checkpoint
from keras_transformer.training.finite_loss import StopOnNonFinite
from keras_transformer.training.losses import MaskedCrossentropy, token_crossentropy
from keras_transformer.training.metrics import MaskedAccuracy, Perplexity
from keras_transformer.training.model_files import load_model, save_model
from keras_transformer.training.random_state import (
    backend_random_state,
    random_state,
    set_backend_random_state,
    set_random_state,
)
from keras_transformer.training.recipe import compile_model, make_schedule
from keras_transformer.training.schedules import InverseSquareRootSchedule, NoamSchedule

__all__ = [
    "Checkpoint",
    "CheckpointState",
    "CheckpointWarning",
    "InverseSquareRootSchedule",
    "MaskedAccuracy",
    "MaskedCrossentropy",
    "NoamSchedule",
    "Perplexity",
    "StopOnNonFinite",
    "backend_random_state",
    "compile_model",
    "load_model",
    "make_schedule",
    "random_state",
    "read_checkpoint",
    "read_state",
    "save_model",
    "set_backend_random_state",
    "set_random_state",
    "token_crossentropy",
]
