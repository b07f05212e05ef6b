"""Source texts as the padded matrix of ids that the encoder reads."""

import tensorflow as tf

from keras_transformer.text.special_tokens import END_ID, PAD_ID
from keras_transformer.text.tokenizer import Tokenizer


def source_token_ids(texts: tf.Tensor, tokenizer: Tokenizer, max_length: int) -> tf.Tensor:
    """Tokenizes sources, ends each with `END_ID` and pads them to the longest.

    Args:
        texts: string (b,).
        tokenizer: of the source language.
        max_length: most tokens of a row, the end token included; what follows is cut off.

    Returns:
        int32 (b, s), with s at least 1.
    """
    token_ids = tokenizer.tokenize(texts)[:, : max_length - 1]
    ends = tf.fill([token_ids.nrows(), 1], END_ID)
    return tf.concat([token_ids, ends], axis=1).to_tensor(PAD_ID)
