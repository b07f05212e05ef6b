"""A run: its configuration, its directory, its data, and how it is trained."""

from keras_transformer.runs.config import (
    DataConfig,
    DecodingConfig,
    ModelConfig,
    RunConfig,
    Section,
    TrainingConfig,
    TransformerConfig,
    Value,
    VocabularyConfig,
)

__all__ = [
    "DataConfig",
    "DecodingConfig",
    "ModelConfig",
    "RunConfig",
    "Section",
    "TrainingConfig",
    "TransformerConfig",
    "Value",
    "VocabularyConfig",
]
