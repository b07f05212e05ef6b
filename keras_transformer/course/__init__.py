"""Well-known course assignments: their names and call styles, on top of `keras_transformer.layers`.

- Deep Learning Specialization, "Transformers Architecture with TensorFlow": `EncoderLayer(...)(x, training,
  mask)`, `Transformer(...)(input_sentence, output_sentence, training, enc_padding_mask, look_ahead_mask,
  dec_padding_mask)` and the functions around them.
- TensorFlow Addons: `addons.MultiHeadAttention`, called with a list.

`mha`, `mha1` and `mha2` are `layers.MultiHeadAttention` with `key_dim` equal to `embedding_dim`; `embedding`
is a `layers.TokenEmbedding`, whose output is already scaled. Unlike `layers.DecoderLayer`, nothing here is
causal unless a look-ahead mask is passed.

In every mask 1 (True) means that a key may be attended to. All calls take their arguments by position, by
keyword or mixed. See `keras_transformer.layers` for the letters in shapes.
"""

import keras_transformer.course.addons as addons
from keras_transformer.course.functions import (
    FullyConnected,
    create_look_ahead_mask,
    create_padding_mask,
    get_angles,
    masked_loss,
    next_word,
    positional_encoding,
    scaled_dot_product_attention,
)
from keras_transformer.course.transformer import Decoder, DecoderLayer, Encoder, EncoderLayer, Transformer

__all__ = [
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "FullyConnected",
    "Transformer",
    "addons",
    "create_look_ahead_mask",
    "create_padding_mask",
    "get_angles",
    "masked_loss",
    "next_word",
    "positional_encoding",
    "scaled_dot_product_attention",
]
__dir__ = __all__.copy  # `dir()` shows what is public
