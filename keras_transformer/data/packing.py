"""Sequence packing for causal language models."""

import tensorflow as tf

from keras_transformer._arguments import check_kind, check_positive
from keras_transformer.types import SPECIAL_IDS


def pack_texts(token_ids: tf.RaggedTensor, length: int) -> tf.data.Dataset:
    """Pack texts into rows of equal length without padding, for a `CausalLM`.

    The texts are concatenated and cut into rows, so a row may begin and end within a text. Tokens attend to
    earlier texts of their row, as in Brown et al. 2020, "Language Models are Few-Shot Learners", appendix B.
    Only the last row is padded.

    Args:
        token_ids: int32 (n, ragged), as returned by `Tokenizer.tokenize`.
        length: Number of tokens of a row, including special tokens.

    Returns:
        Rows `(inputs, labels)`, int32 (length,) each, in order. The inputs have a start token before each
        text, the labels an end token after it. Shuffle and batch them next.

    Raises:
        ValueError: If `length` is below 1.

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
