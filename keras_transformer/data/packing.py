"""Sequence packing: texts of any length in rows of one length, for a `CausalLM`."""

import tensorflow as tf

from keras_transformer.text.special_tokens import END_ID, PAD_ID, START_ID


def pack_texts(token_ids: tf.RaggedTensor, length: int) -> tf.data.Dataset:
    """Puts texts one after the other into rows of one length, without padding between them.

    A row may begin and end within a text, and its tokens attend to the texts before them in the row, as in
    Brown et al. 2020, "Language Models are Few-Shot Learners", appendix B. Only the last row is padded.
    Pairs of an encoder-decoder go through `packed_dataset`.

    Args:
        token_ids: int32 (n, ragged), as `Tokenizer.tokenize` gives them.
        length: tokens of a row, special ones included.

    Returns:
        rows `(inputs, labels)`, int32 (length,) each, in order: in the inputs a start token before each text,
        in the labels an end token after it. What remains is to shuffle and to batch them.

    Raises:
        ValueError: a length below 1.

    Example:
        >>> texts = tf.ragged.constant([[5, 6, 7], [8]], dtype=tf.int32)
        >>> for inputs, labels in pack_texts(texts, 4):
        ...     print(inputs.numpy(), labels.numpy())
        [2 5 6 7] [5 6 7 3]
        [2 8 0 0] [8 3 0 0]
    """
    if length < 1:
        raise ValueError(f"`length` must be at least 1. Received: length={length}.")
    start, end = (tf.fill([token_ids.nrows(), 1], token_id) for token_id in (START_ID, END_ID))  # (n, 1)
    sides = tf.concat([start, token_ids], axis=1), tf.concat([token_ids, end], axis=1)
    return tf.data.Dataset.from_tensor_slices(tuple(_fill_rows(side.flat_values, length) for side in sides))


def _fill_rows(stream: tf.Tensor, length: int) -> tf.Tensor:
    """Cut int32 (m,) into rows `(ceil(m / length), length)`."""
    padding = -tf.size(stream) % length
    return tf.reshape(tf.pad(stream, [[0, padding]], constant_values=PAD_ID), (-1, length))
