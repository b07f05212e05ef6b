"""Build `tf.data.Dataset`s of labelled and tagged texts for `model.fit`."""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import tensorflow as tf

from keras_transformer._arguments import check_flags, check_kind, check_number
from keras_transformer.data.batching import _checked_order, _in_batches, _Pad
from keras_transformer.data.encoding import _CHUNK_SIZE
from keras_transformer.data.labels import _checked_examples, _LabelNumbers
from keras_transformer.errors import InputError
from keras_transformer.text import Tokenizer, encode_words
from keras_transformer.types import NOT_COUNTED, SPECIAL_IDS, LabelledText, TaggedText

_Item = TypeVar("_Item", str, list[str])

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodedLabels:
    """Token ids and label ids of n labelled texts."""

    token_ids: tf.RaggedTensor
    """int32 (n, ragged): Token ids, including the end token."""
    labels: np.ndarray
    """int32 (n,): Label ids; with `multi_label`, float32 (n, c) of zeros and ones."""
    num_dropped: int = 0
    """Number of dropped texts. Always 0, because texts that are too long are truncated."""

    @classmethod
    def encode(
        cls,
        examples: Iterable[LabelledText],
        tokenizer: Tokenizer,
        labels: Sequence[str],
        *,
        multi_label: bool = False,
        max_length: int = 256,
    ) -> "EncodedLabels":
        """Tokenize labelled texts.

        Arguments and exceptions are those of `classification_dataset`.
        """
        check_flags(multi_label=multi_label)
        several, numbers = _checked_examples(examples), _LabelNumbers(labels=labels)
        texts = [_as_text(text, number) for number, (text, _) in enumerate(several)]
        wanted = [_as_names(label, number, multi_label) for number, (_, label) in enumerate(several)]
        token_ids = _encode_chunks(
            texts, lambda chunk: tokenizer.ended_ids(chunk, max_length), max_length, tokenizer
        )
        return cls(token_ids=token_ids, labels=numbers.targets(wanted, multi_label=multi_label))

    def __len__(self) -> int:
        return len(self.labels)

    def lengths(self) -> np.ndarray:
        """Return the length of each text including its end token, int32 (n, 1)."""
        return np.asarray(self.token_ids.row_lengths(), np.int32)[:, np.newaxis]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodedTags:
    """Token ids and tag ids of n tagged texts."""

    token_ids: tf.RaggedTensor
    """int32 (n, ragged): Token ids, including the end token."""
    tags: tf.RaggedTensor
    """int32 (n, ragged): Tag id of each word at its first token, -100 at all other positions."""
    num_dropped: int = 0
    """Number of dropped texts. Always 0, because texts that are too long are truncated."""

    @classmethod
    def encode(
        cls,
        sentences: Iterable[TaggedText],
        tokenizer: Tokenizer,
        tags: Sequence[str],
        *,
        max_length: int = 256,
    ) -> "EncodedTags":
        """Tokenize tagged texts.

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
        return cls(token_ids=token_ids, tags=token_ids.with_flat_values(flat))

    def __len__(self) -> int:
        return int(self.token_ids.nrows())

    def lengths(self) -> np.ndarray:
        """Return the length of each text including its end token, int32 (n, 1)."""
        return np.asarray(self.token_ids.row_lengths(), np.int32)[:, np.newaxis]


def classification_dataset(
    examples: Iterable[LabelledText] | EncodedLabels,
    tokenizer: Tokenizer | None = None,
    labels: Sequence[str] = (),
    *,
    multi_label: bool = False,
    class_weight: str | Mapping[str, float] | None = None,
    max_length: int = 256,
    tokens_per_batch: int = 4096,
    shuffle: bool = True,
    seed: int = 0,
    first_epoch: int = 0,
    pad_to_bucket_boundary: bool = False,
) -> tf.data.Dataset:
    """Build the dataset that trains or validates a text classifier.

    Texts of similar length share a batch, as in `translation_dataset`. Texts of more than `max_length` tokens
    are truncated, as by `TextClassifier`, and their number is logged.

    Args:
        examples: Pairs `(text, label)`, such as `read_labelled` returns, or `EncodedLabels`.
        tokenizer: Tokenizer of the model. Ignored for `EncodedLabels`.
        labels: Names of the labels. The id of a label is its index.
        multi_label: Whether a text may have any number of labels. If True, examples are pairs `(text, names)`
            with a tuple or list of label names.
        class_weight: Weight of the examples of each label, such as `{"spam": 5.0}`; other labels have weight
            1. `"balanced"` gives all labels the same total weight: each example of a label has the weight
            `num_examples / (num_labels * num_examples_of_the_label)`. Defaults to no weights.
        max_length: Maximum number of tokens of a text, including the end token.
        tokens_per_batch: Maximum number of tokens of a batch, including padding.
        shuffle: Whether to draw new batches in each epoch. If False, batches come from short to long.
        seed: Random seed of the shuffling.
        first_epoch: Epoch number of the first iteration, to resume a run.
        pad_to_bucket_boundary: Whether to pad to one of a few lengths, for few batch shapes (XLA). If False,
            each batch is padded to its longest row, for little padding.

    Returns:
        A finite dataset of known cardinality with elements `(token_ids, label)`: int32 (b, s), padded with 0,
        and int32 (b,), or with `multi_label` float32 (b, c) of zeros and ones. With `class_weight`, the
        weight of each example, float32 (b,), is the third component.

    Raises:
        InputError: If there are no examples, or a label is not among `labels`.
        TypeError: If an example is not a text and its label, or has several labels without `multi_label`.
        ValueError: If a value is out of range, or `class_weight` is combined with `multi_label`.

    Example:
        ```python
        examples = kt.data.read_labelled("reviews.csv")
        labels = kt.data.label_names(examples)
        dataset = kt.data.classification_dataset(examples, tokenizer, labels, class_weight="balanced")
        ```
    """
    order = _checked_order(shuffle, seed, first_epoch, tokens_per_batch, padded=pad_to_bucket_boundary)
    check_kind(str, Mapping, None, class_weight=class_weight)
    if isinstance(examples, EncodedLabels):
        encoded = examples
    else:
        if not isinstance(tokenizer, Tokenizer):
            raise TypeError(f"Texts need `tokenizer`, a Tokenizer. Received: tokenizer={tokenizer!r}.")
        encoded = EncodedLabels.encode(
            examples, tokenizer, labels, multi_label=multi_label, max_length=max_length
        )
    columns = [tf.constant(encoded.labels)]
    if class_weight is not None:
        if encoded.labels.ndim > 1:
            raise ValueError(
                "`class_weight` is for texts with one label each. "
                f"Received: class_weight={class_weight!r}, multi_label=True."
            )
        columns.append(tf.constant(_LabelNumbers(labels=labels).weights(class_weight, encoded.labels)))

    def rows(indices: tf.Tensor, pad: _Pad) -> tuple[tf.Tensor, ...]:
        inputs = pad(tf.gather(encoded.token_ids, indices), SPECIAL_IDS.pad)
        return inputs, *(tf.gather(each, indices) for each in columns)

    return _in_batches(rows, encoded.lengths(), tokens_per_batch, order, padded=pad_to_bucket_boundary)


def tagging_dataset(
    sentences: Iterable[TaggedText] | EncodedTags,
    tokenizer: Tokenizer | None = None,
    tags: Sequence[str] = (),
    *,
    max_length: int = 256,
    tokens_per_batch: int = 4096,
    shuffle: bool = True,
    seed: int = 0,
    first_epoch: int = 0,
    pad_to_bucket_boundary: bool = False,
) -> tf.data.Dataset:
    """Build the dataset that trains or validates a word tagger.

    A word may consist of several tokens. Its tag is assigned to the first token, as in Devlin et al., "BERT"
    (2019), section 5.3. All other positions have the tag -100; ignore them in the loss with
    `compile_model(..., pad_id=-100)` or `keras.losses.SparseCategoricalCrossentropy(ignore_class=-100)`.

    Args:
        sentences: Pairs `(words, tags)`, such as `read_tagged` returns, or `EncodedTags`.
        tokenizer: Tokenizer of the model. Ignored for `EncodedTags`.
        tags: Names of the tags. The id of a tag is its index.
        max_length: Maximum number of tokens of a text, including the end token. Longer texts are truncated.
        tokens_per_batch: Maximum number of tokens of a batch, including padding.
        shuffle: Whether to draw new batches in each epoch. If False, batches come from short to long.
        seed: Random seed of the shuffling.
        first_epoch: Epoch number of the first iteration, to resume a run.
        pad_to_bucket_boundary: Whether to pad to one of a few lengths, for few batch shapes (XLA). If False,
            each batch is padded to its longest row, for little padding.

    Returns:
        A finite dataset of known cardinality with elements `(token_ids, tags)`, both int32 (b, s).

    Raises:
        InputError: If there are no sentences, a tag is not among `tags`, or a sentence does not have one tag
            per word.
        TypeError: If a sentence is not words and their tags.
        ValueError: If a value is out of range.

    Example:
        ```python
        sentences = kt.data.read_tagged("names.conll")
        tags = kt.data.label_names(sentences)
        dataset = kt.data.tagging_dataset(sentences, tokenizer, tags)
        ```
    """
    order = _checked_order(shuffle, seed, first_epoch, tokens_per_batch, padded=pad_to_bucket_boundary)
    if isinstance(sentences, EncodedTags):
        encoded = sentences
    else:
        if not isinstance(tokenizer, Tokenizer):
            raise TypeError(f"Texts need `tokenizer`, a Tokenizer. Received: tokenizer={tokenizer!r}.")
        encoded = EncodedTags.encode(sentences, tokenizer, tags, max_length=max_length)

    def rows(indices: tf.Tensor, pad: _Pad) -> tuple[tf.Tensor, ...]:
        inputs, labels = (tf.gather(each, indices) for each in (encoded.token_ids, encoded.tags))
        return pad(inputs, SPECIAL_IDS.pad), pad(labels, NOT_COUNTED)

    return _in_batches(rows, encoded.lengths(), tokens_per_batch, order, padded=pad_to_bucket_boundary)


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
