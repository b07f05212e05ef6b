"""The layers of Figure 1, each usable alone.

The letters of every shape and einsum equation: `b` batch, `t` query or target
length, `s` key or source length, `d` model width, `h` heads, `k` head width,
`f` inner width, `v` vocabulary, `n` hypotheses of a source, `T` the number of
positions that a cache has room for.
"""

from keras_transformer.layers.attention_cache import AttentionCache
from keras_transformer.layers.block import Block
from keras_transformer.layers.decoder import Decoder
from keras_transformer.layers.decoder_cache import DecoderCache, DecoderLayerCache
from keras_transformer.layers.decoder_layer import DecoderLayer
from keras_transformer.layers.dot_product_attention import dot_product_attention, masked_softmax
from keras_transformer.layers.encoder import Encoder
from keras_transformer.layers.encoder_layer import EncoderLayer
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.fused_attention import fused_attention
from keras_transformer.layers.learned_position_encoding import LearnedPositionEncoding
from keras_transformer.layers.masks import causal_mask, combine_masks, padding_mask, window_mask
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.output_projection import OutputProjection
from keras_transformer.layers.position_encoding import PositionEncoding
from keras_transformer.layers.relative_position_bias import RelativePositionBias
from keras_transformer.layers.residual import Residual
from keras_transformer.layers.rotary_embedding import RotaryEmbedding, rotary_embedding
from keras_transformer.layers.segments import segment_mask, segment_positions
from keras_transformer.layers.sinusoids import sinusoidal_position_encoding
from keras_transformer.layers.token_embedding import TokenEmbedding

__all__ = [
    "AttentionCache",
    "Block",
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
