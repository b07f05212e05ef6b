"""Functional Keras models built from `layers`, and their options."""

from keras_transformer._backend.shapes import shapes_only
from keras_transformer.models.causal_lm import CausalLM
from keras_transformer.models.config import PRESETS, TransformerConfig
from keras_transformer.models.encoder_model import EncoderModel
from keras_transformer.models.ensemble import Ensemble
from keras_transformer.models.transformer import Transformer

__all__ = [
    "PRESETS",
    "CausalLM",
    "EncoderModel",
    "Ensemble",
    "Transformer",
    "TransformerConfig",
    "shapes_only",
]
__dir__ = __all__.copy  # `dir()` shows what is public
