"""Layers of "Attention Is All You Need", Figure 1; each can be used separately.

Letters in shapes and einsum equations: `b` batch, `t` query or target length, `s` key or source length, `d`
model width, `h` heads, `k` head width, `f` inner width, `v` vocabulary size, `n` hypotheses per source, `T`
positions in a cache, `g` key/value heads, `r` query heads per key/value head.
"""

from keras_transformer.layers.cached_decoder import CachedDecoder
from keras_transformer.layers.config import LayerConfig
from keras_transformer.layers.decoder import Decoder, DecoderLayer
from keras_transformer.layers.dot_product_attention import dot_product_attention
from keras_transformer.layers.encoder import Encoder, EncoderLayer
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.masks import causal_mask, combine_masks, padding_mask
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.normalization import Dropout
from keras_transformer.layers.position_encoding import (
    LearnedPositionEncoding,
    PositionEncoding,
    sinusoidal_position_encoding,
)
from keras_transformer.layers.projection import Dense
from keras_transformer.layers.rotary_embedding import RotaryEmbedding
from keras_transformer.layers.token_embedding import OutputProjection, TokenEmbedding

__all__ = [
    "CachedDecoder",
    "Decoder",
    "DecoderLayer",
    "Dense",
    "Dropout",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "LayerConfig",
    "LearnedPositionEncoding",
    "MultiHeadAttention",
    "OutputProjection",
    "PositionEncoding",
    "RotaryEmbedding",
    "TokenEmbedding",
    "causal_mask",
    "combine_masks",
    "dot_product_attention",
    "padding_mask",
    "sinusoidal_position_encoding",
]
__dir__ = __all__.copy  # `dir()` shows what is public
