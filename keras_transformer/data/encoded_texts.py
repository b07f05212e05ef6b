"""Token ids of texts, and what a model learns for them."""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Self, TypeVar

import numpy as np
import tensorflow as tf

from keras_transformer._arguments import as_strings, check_flags, check_kind, check_number
from keras_transformer.data.batching import _Encoded
from keras_transformer.data.encoding import _CHUNK_SIZE, _tokenize
from keras_transformer.data.labels import _checked_examples, _LabelNumbers
from keras_transformer.errors import InputError
from keras_transformer.text import Tokenizer, encode_words
from keras_transformer.types import NOT_COUNTED, SPECIAL_IDS, LabelledText, TaggedText

_Item = TypeVar("_Item", str, list[str])

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodedTexts(_Encoded):
    """Token ids of n texts, what a model learns for each, and the number of dropped texts.

    Each of the three constructors is for one of `text_dataset`, `classification_dataset` and
    `tagging_dataset`, which make batches of the rows.
    """

    inputs: tf.RaggedTensor
    """Token ids, int32 (n, ragged)."""
    labels: tf.RaggedTensor | np.ndarray
    """Token ids to predict, or tag ids, int32 (n, ragged), of the same lengths; or label ids, int32 (n,), or
    float32 (n, c) of zeros and ones."""
    kind: Literal["texts", "labels", "tags"] = "texts"
    """What is learned: the texts, a label or labels of each, or the tags of their words."""
    names: tuple[str, ...] = ()
    """Names of the labels or tags, by id."""
    num_dropped: int = 0
    """Number of texts dropped because they were too long. Labelled and tagged texts are truncated instead."""

    @classmethod
    def encode(
        cls, texts: Iterable[str], tokenizer: Tokenizer, *, max_length: int = 256, packed: bool = False
    ) -> Self:
        """Tokenize texts for a language model.

        A row is one text: the inputs have a start token before it, the labels an end token after it. With
        packing, a row is a part of the concatenated texts.

        Args:
            texts: n texts, or a generator of texts.
            tokenizer: Tokenizer of the model.
            max_length: Maximum number of tokens of a row, including one special token. Longer texts are
                dropped and logged as a warning, unless `packed` is True.
            packed: Whether to concatenate the texts and cut them into rows of `max_length` tokens, so that
                texts of any length are kept and only the last row is shorter. Tokens attend to earlier texts
                of their row, as in Brown et al. 2020, "Language Models are Few-Shot Learners", appendix B.
                Use it for running text and long documents.

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
        num_dropped = 0
        if not packed:
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
            token_ids = tf.ragged.boolean_mask(token_ids, ~is_long)
        start, end = (tf.fill([token_ids.nrows(), 1], each) for each in (SPECIAL_IDS.start, SPECIAL_IDS.end))
        inputs, labels = tf.concat([start, token_ids], axis=1), tf.concat([token_ids, end], axis=1)
        if packed:
            size = len(inputs.flat_values)
            splits = [*range(0, size, max_length), size]
            inputs, labels = (
                tf.RaggedTensor.from_row_splits(side.flat_values, splits) for side in (inputs, labels)
            )
        return cls(inputs=inputs, labels=labels, num_dropped=num_dropped)

    @classmethod
    def encode_labelled(
        cls,
        examples: Iterable[LabelledText],
        tokenizer: Tokenizer,
        labels: Sequence[str],
        *,
        multi_label: bool = False,
        max_length: int = 256,
    ) -> Self:
        """Tokenize labelled texts, with end tokens.

        Arguments and exceptions are those of `classification_dataset`.
        """
        check_flags(multi_label=multi_label)
        several, numbers = _checked_examples(examples), _LabelNumbers(labels=labels)
        texts = [_as_text(text, number) for number, (text, _) in enumerate(several)]
        wanted = [_as_names(label, number, multi_label) for number, (_, label) in enumerate(several)]
        token_ids = _encode_chunks(
            texts, lambda chunk: tokenizer.ended_ids(chunk, max_length), max_length, tokenizer
        )
        targets = numbers.targets(wanted, multi_label=multi_label)
        return cls(kind="labels", inputs=token_ids, labels=targets, names=numbers.names)

    @classmethod
    def encode_tagged(
        cls,
        sentences: Iterable[TaggedText],
        tokenizer: Tokenizer,
        tags: Sequence[str],
        *,
        max_length: int = 256,
    ) -> Self:
        """Tokenize tagged texts, with end tokens. The tag of a word is that of its first token.

        Arguments and exceptions are those of `tagging_dataset`.
        """
        several, numbers = _checked_examples(sentences), _LabelNumbers(tags=tags)
        rows_of_tags = []
        for number, (tokens, given) in enumerate(several):
            if isinstance(tokens, str) or isinstance(given, str) or len(tokens) != len(given):
                raise InputError(
                    "Each sentence must be tokens and a tag for each. "
                    f"Received: sentences[{number}]={(tokens, given)!r:.200}."
                )
            rows_of_tags.append(numbers.of(given))
        words = [[*map(_as_text, tokens, range(len(tokens)))] for tokens, _ in several]
        firsts: list[tf.RaggedTensor] = []

        def encode(chunk: list[list[str]]) -> tuple[tf.Tensor, tf.Tensor]:
            encoded = encode_words(tokenizer, tf.ragged.constant(chunk, tf.string, ragged_rank=1), max_length)
            firsts.append(encoded.first_pieces)
            return encoded.token_ids, encoded.is_cut

        token_ids = _encode_chunks(words, encode, max_length, tokenizer)
        first_pieces = tf.concat(firsts, axis=0)  # (n, ragged): words that were cut off are missing
        wanted = tf.ragged.constant(rows_of_tags, tf.int32, ragged_rank=1)
        is_read = tf.ragged.range(wanted.row_lengths()) < tf.expand_dims(first_pieces.row_lengths(), 1)
        wanted = tf.ragged.boolean_mask(wanted, is_read)
        starts = tf.cast(tf.gather(token_ids.row_starts(), first_pieces.value_rowids()), tf.int32)
        at = starts + first_pieces.flat_values  # index into the flat token ids
        flat = tf.fill(tf.shape(token_ids.flat_values), NOT_COUNTED)
        flat = tf.tensor_scatter_nd_update(flat, at[:, tf.newaxis], wanted.flat_values)
        labels = token_ids.with_flat_values(flat)
        return cls(kind="tags", inputs=token_ids, labels=labels, names=numbers.names)

    def __len__(self) -> int:
        return int(self.inputs.nrows())

    def lengths(self) -> np.ndarray:
        """Return the length of each row with its special tokens, int32 (n, 1)."""
        return np.asarray(self.inputs.row_lengths(), np.int32)[:, np.newaxis]

    @property
    def _label_padding(self) -> int:
        return NOT_COUNTED if self.kind == "tags" else SPECIAL_IDS.pad

    @tf.autograph.experimental.do_not_convert
    def _rows(self, indices: tf.Tensor) -> tuple[tf.Tensor, ...]:
        labels = self.labels
        if not isinstance(labels, tf.RaggedTensor):
            with tf.init_scope():  # a captured tensor; an array would become a constant of the graph
                labels = tf.constant(labels)
        return tf.gather(self.inputs, indices), tf.gather(labels, indices)


def _needed(tokenizer: Tokenizer | None) -> Tokenizer:
    """Return the tokenizer; raise TypeError for None and others."""
    if not isinstance(tokenizer, Tokenizer):
        raise TypeError(f"Texts need `tokenizer`, a Tokenizer. Received: tokenizer={tokenizer!r:.200}.")
    return tokenizer


def _as_text(text: object, number: int) -> str:
    if not isinstance(text, str):
        raise TypeError(f"Texts and tokens must be strings. Received: number {number}, {text!r:.200}.")
    return text


def _as_names(label: str | Sequence[str], number: int, multi_label: bool) -> Sequence[str]:
    if isinstance(label, str) == multi_label:
        wanted = "a tuple or list of strings" if multi_label else "a string, or `multi_label` must be True"
        raise TypeError(f"A label must be {wanted}. Received: examples[{number}] with {label!r:.200}.")
    return (label,) if isinstance(label, str) else label


def _encode_chunks(
    items: list[_Item],
    encode: Callable[[list[_Item]], tuple[tf.Tensor, tf.Tensor]],
    max_length: int,
    tokenizer: Tokenizer,
) -> tf.RaggedTensor:
    """Tokenize in chunks, int32 (n, ragged), and log how many items were truncated."""
    check_kind(Tokenizer, tokenizer=tokenizer)
    check_number(at_least=2, whole=True, max_length=max_length)
    if not items:
        raise InputError("There must be at least one example. Received: 0 examples.")
    chunks, num_cut = [], 0
    for start in range(0, len(items), _CHUNK_SIZE):
        token_ids, is_cut = encode(items[start : start + _CHUNK_SIZE])
        chunks.append(tf.RaggedTensor.from_tensor(token_ids, padding=SPECIAL_IDS.pad))
        num_cut += int(tf.math.count_nonzero(is_cut))
    if num_cut:
        message = "%d of %d texts are longer than max_length=%d tokens, and are cut off."
        _LOGGER.warning(message, num_cut, len(items), max_length)
    return tf.concat(chunks, axis=0)
