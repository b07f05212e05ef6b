"""Whole models, each a Functional `keras.Model` built from `layers`."""

from keras_transformer.backend import BatchParts
from keras_transformer.models.causal_lm import CausalLM
from keras_transformer.models.config import preset
from keras_transformer.models.configured_model import SecondPass
from keras_transformer.models.encoder_model import EncoderModel
from keras_transformer.models.ensemble import Ensemble
from keras_transformer.models.source import Pooling
from keras_transformer.models.transformer import Transformer

__all__ = [
    "BatchParts",
    "CausalLM",
    "EncoderModel",
    "Ensemble",
    "Pooling",
    "SecondPass",
    "Transformer",
    "preset",
]
