"""Sequence packing: texts for a `CausalLM`, one after the other in rows of one length."""

import tensorflow as tf

from keras_transformer._arguments import check_kind, check_positive
from keras_transformer.types import SPECIAL_IDS


def pack_texts(token_ids: tf.RaggedTensor, length: int) -> tf.data.Dataset:
    """Put texts one after the other into rows of one length, without padding between them.

    A row may begin and end within a text, and its tokens attend to the texts before them in the row, as in
    Brown et al. 2020, "Language Models are Few-Shot Learners", appendix B. Only the last row is padded.

    Args:
        token_ids: int32 (n, ragged), as `Tokenizer.tokenize` gives them.
        length: tokens of a row, special ones included.

    Returns:
        Rows `(inputs, labels)`, int32 (length,) each, in order: in the inputs a start token before each text,
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
    check_kind(tf.RaggedTensor, token_ids=token_ids)
    check_positive(length=length)
    start = tf.fill([token_ids.nrows(), 1], SPECIAL_IDS.start)
    end = tf.fill([token_ids.nrows(), 1], SPECIAL_IDS.end)

    def cut(sequences: tf.RaggedTensor) -> tf.Tensor:
        stream = sequences.flat_values  # (m,) -> (ceil(m / length), length)
        padding = [[0, -tf.size(stream) % length]]
        return tf.reshape(tf.pad(stream, padding, constant_values=SPECIAL_IDS.pad), (-1, length))

    inputs, labels = tf.concat([start, token_ids], axis=1), tf.concat([token_ids, end], axis=1)
    return tf.data.Dataset.from_tensor_slices((cut(inputs), cut(labels)))
