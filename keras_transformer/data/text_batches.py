"""Build `tf.data.Dataset`s of texts for language models."""

import dataclasses
import logging
from collections.abc import Iterable
from typing import Self

import numpy as np
import tensorflow as tf

from keras_transformer._arguments import (
    as_strings,
    check_flags,
    check_kind,
    check_number,
)
from keras_transformer.data.batching import _checked_order, _in_batches, _Pad
from keras_transformer.data.encoding import _tokenize
from keras_transformer.data.packing import pack_texts
from keras_transformer.errors import InputError
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import SPECIAL_IDS

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodedTexts:
    """Inputs and labels of a `CausalLM` for n rows, and the number of dropped texts.

    A row is one text: the inputs have a start token before it, the labels an end token after it. With
    packing, a row is a part of the concatenated texts.
    """

    inputs: tf.RaggedTensor
    """Input token ids, int32 (n, ragged)."""
    labels: tf.RaggedTensor
    """Token ids to predict, of the same lengths."""
    num_dropped: int = 0
    """Number of texts dropped because they were too long."""

    @classmethod
    def encode(
        cls, texts: Iterable[str], tokenizer: Tokenizer, *, max_length: int = 256, packed: bool = False
    ) -> Self:
        """Tokenize texts for a language model.

        Args:
            texts: n texts, or a generator of texts.
            tokenizer: Tokenizer of the model.
            max_length: Maximum number of tokens of a row, including one special token. Longer texts are
                dropped and logged as a warning, unless `packed` is True.
            packed: Whether to pack the texts into rows of `max_length` tokens without padding, see
                `pack_texts`. Use it for running text and long documents; texts of any length are kept.

        Returns:
            The rows, in the order of the texts.

        Raises:
            InputError: If there are no texts, or all are too long.
            TypeError: If a text is not a string.
            ValueError: If `max_length` is below 2.
        """
        check_kind(Tokenizer, tokenizer=tokenizer)
        check_number(at_least=2, whole=True, max_length=max_length)
        check_flags(packed=packed)
        several = as_strings(texts=texts)
        if not several:
            raise InputError("There must be at least one text. Received: 0 texts.")
        token_ids = _tokenize(several, tokenizer)
        if packed:
            inputs, labels = zip(*pack_texts(token_ids, max_length).as_numpy_iterator(), strict=True)
            # Only the last row is padded.
            rows = (np.stack(side) for side in (inputs, labels))
            ragged = [tf.RaggedTensor.from_tensor(side, padding=SPECIAL_IDS.pad) for side in rows]
            return cls(inputs=ragged[0], labels=ragged[1])
        is_long = np.asarray(token_ids.row_lengths()) + 1 > max_length
        num_dropped = int(is_long.sum())
        if num_dropped == len(several):
            raise InputError(
                f"Every text is too long. Received: {num_dropped} texts over {max_length} tokens. With "
                "`packed` they are kept, in pieces."
            )
        if num_dropped:
            share = 100 * num_dropped / len(several)
            _LOGGER.warning(
                "Dropped %d of %d texts (%.1f %%) as too long: over %d tokens. `packed` splits them.",
                *(num_dropped, len(several), share, max_length),
            )
        kept = tf.ragged.boolean_mask(token_ids, ~is_long)
        start, end = (tf.fill([kept.nrows(), 1], each) for each in (SPECIAL_IDS.start, SPECIAL_IDS.end))
        return cls(
            inputs=tf.concat([start, kept], axis=1),
            labels=tf.concat([kept, end], axis=1),
            num_dropped=num_dropped,
        )

    def __len__(self) -> int:
        return int(self.inputs.nrows())

    def lengths(self) -> np.ndarray:
        """Return the length of each row, int32 (n, 1)."""
        return np.asarray(self.inputs.row_lengths(), np.int32)[:, None]


def text_dataset(
    texts: Iterable[str] | EncodedTexts,
    tokenizer: Tokenizer | None = None,
    *,
    tokens_per_batch: int = 4096,
    max_length: int = 256,
    packed: bool = False,
    shuffle: bool = True,
    seed: int = 0,
    first_epoch: int = 0,
    pad_to_bucket_boundary: bool = False,
) -> tf.data.Dataset:
    """Build the dataset that trains or validates a `CausalLM`.

    Texts of similar length share a batch. Each iteration over the dataset is an epoch, whose order depends
    only on `seed` and the epoch number, as in `translation_dataset`.

    Args:
        texts: Strings, or `EncodedTexts`.
        tokenizer: Tokenizer of the model. Ignored for `EncodedTexts`.
        tokens_per_batch: Maximum number of tokens of a batch, including padding.
        max_length: Maximum number of tokens of a row; see `EncodedTexts.encode`.
        packed: Whether to pack the texts into rows without padding; see `EncodedTexts.encode`.
        shuffle: Whether to draw new batches in each epoch. If False, batches come from short to long.
        seed: Random seed of the shuffling.
        first_epoch: Epoch number of the first iteration, to resume a run.
        pad_to_bucket_boundary: Whether to pad to the bucket boundary, for few batch shapes (XLA). If False,
            each batch is padded to its longest row, for little padding.

    Returns:
        A finite dataset of known cardinality with elements `(inputs, labels)`, int32 `(b, t)` each, padded
        with 0.

    Raises:
        InputError: If there are no texts, or all are too long.
        TypeError: If texts come without a tokenizer, or a text is not a string.
        ValueError: If a value is out of range.

    Example:
        >>> from keras_transformer.text import CharacterTokenizer
        >>> dataset = text_dataset(["abba", "ab"], CharacterTokenizer(["a", "b"]), shuffle=False)
        >>> for inputs, labels in dataset.as_numpy_iterator():
        ...     print(inputs.tolist(), labels.tolist())
        [[2, 4, 5, 0, 0], [2, 4, 5, 5, 4]] [[4, 5, 3, 0, 0], [4, 5, 5, 4, 3]]
    """
    order = _checked_order(shuffle, seed, first_epoch, tokens_per_batch, padded=pad_to_bucket_boundary)
    if isinstance(texts, EncodedTexts):
        encoded = texts
    elif tokenizer is None:
        raise TypeError("`tokenizer` must be given for texts. Received: tokenizer=None.")
    else:
        encoded = EncodedTexts.encode(texts, tokenizer, max_length=max_length, packed=packed)

    def rows(indices: tf.Tensor, pad: _Pad) -> tuple[tf.Tensor, tf.Tensor]:
        inputs, labels = (tf.gather(side, indices) for side in (encoded.inputs, encoded.labels))
        return pad(inputs, SPECIAL_IDS.pad), pad(labels, SPECIAL_IDS.pad)

    return _in_batches(rows, encoded.lengths(), tokens_per_batch, order, padded=pad_to_bucket_boundary)
