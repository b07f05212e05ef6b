"""What a run is made of, as frozen dataclasses: read from TOML, changed by flags, written as JSON.

One file each: the checks (`section`), the model (`model`), the data (`data`), training and decoding
(`training`), the whole run (`run`) and the way in from a table or a file (`reading`).
"""

from keras_transformer.config.data import DataConfig, VocabularyConfig
from keras_transformer.config.model import ModelConfig, TransformerConfig
from keras_transformer.config.run import RunConfig
from keras_transformer.config.section import Section, Value
from keras_transformer.config.training import DecodingConfig, TrainingConfig

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
