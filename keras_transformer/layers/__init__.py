"""The layers of Figure 1, each usable alone.

The letters of every shape and einsum equation: `b` batch, `t` query or target
length, `s` key or source length, `d` model width, `h` heads, `k` head width,
`f` inner width, `v` vocabulary, `n` hypotheses of a source, `T` the number of
positions that a cache has room for.
"""

from keras_transformer.layers.block import Block
from keras_transformer.layers.cached_attention import AttentionCache
from keras_transformer.layers.cached_decoder import CachedDecoder
from keras_transformer.layers.decoder import Decoder, DecoderCache, DecoderLayer, DecoderLayerCache
from keras_transformer.layers.dot_product_attention import (
    dot_product_attention,
    fused_attention,
    masked_softmax,
)
from keras_transformer.layers.encoder import Encoder, EncoderLayer
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.learned_position_encoding import LearnedPositionEncoding
from keras_transformer.layers.masks import (
    causal_mask,
    combine_masks,
    padding_mask,
    segment_mask,
    segment_positions,
    window_mask,
)
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.position_encoding import PositionEncoding, sinusoidal_position_encoding
from keras_transformer.layers.relative_position_bias import RelativePositionBias
from keras_transformer.layers.residual import Residual
from keras_transformer.layers.rotary_embedding import RotaryEmbedding, rotary_embedding
from keras_transformer.layers.token_embedding import OutputProjection, TokenEmbedding

__all__ = [
    "AttentionCache",
    "Block",
    "CachedDecoder",
    "Decoder",
    "DecoderCache",
    "DecoderLayer",
    "DecoderLayerCache",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "LearnedPositionEncoding",
    "MultiHeadAttention",
    "OutputProjection",
    "PositionEncoding",
    "RelativePositionBias",
    "Residual",
    "RotaryEmbedding",
    "TokenEmbedding",
    "causal_mask",
    "combine_masks",
    "dot_product_attention",
    "fused_attention",
    "masked_softmax",
    "padding_mask",
    "rotary_embedding",
    "segment_mask",
    "segment_positions",
    "sinusoidal_position_encoding",
    "window_mask",
]
