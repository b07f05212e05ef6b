"""Build `tf.data.Dataset`s of texts, labelled texts and tagged texts for `model.fit`."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from keras_transformer._arguments import check_kind
from keras_transformer.data.batching import _checked_order
from keras_transformer.data.encoded_texts import EncodedTexts, _needed
from keras_transformer.data.labels import _LabelNumbers
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import LabelledText, TaggedText


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
    if not isinstance(texts, EncodedTexts):
        texts = EncodedTexts.encode(texts, _needed(tokenizer), max_length=max_length, packed=packed)
    return _of_kind("texts", texts)._in_batches(tokens_per_batch, order, padded=pad_to_bucket_boundary)


def classification_dataset(
    examples: Iterable[LabelledText] | EncodedTexts,
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
        examples: Pairs `(text, label)`, such as `read_labelled` returns, or `EncodedTexts`.
        tokenizer: Tokenizer of the model. Ignored for `EncodedTexts`.
        labels: Names of the labels. The id of a label is its index. Not needed for `EncodedTexts`.
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
    if not isinstance(examples, EncodedTexts):
        examples = EncodedTexts.encode_labelled(
            examples, _needed(tokenizer), labels, multi_label=multi_label, max_length=max_length
        )
    examples = _of_kind("labels", examples, labels)
    dataset = examples._in_batches(tokens_per_batch, order, padded=pad_to_bucket_boundary)
    if class_weight is None:
        return dataset
    if not isinstance(examples.labels, np.ndarray) or examples.labels.ndim > 1:
        raise ValueError(
            "`class_weight` is for texts with one label each. "
            f"Received: class_weight={class_weight!r}, labels of shape {tuple(examples.labels.shape)}."
        )
    weights = tf.constant(_LabelNumbers(labels=examples.names).weights(class_weight, examples.labels))
    return dataset.map(lambda inputs, label: (inputs, label, tf.gather(weights, label)))


def tagging_dataset(
    sentences: Iterable[TaggedText] | EncodedTexts,
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
        sentences: Pairs `(words, tags)`, such as `read_tagged` returns, or `EncodedTexts`.
        tokenizer: Tokenizer of the model. Ignored for `EncodedTexts`.
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
    if not isinstance(sentences, EncodedTexts):
        sentences = EncodedTexts.encode_tagged(sentences, _needed(tokenizer), tags, max_length=max_length)
    sentences = _of_kind("tags", sentences, tags)
    return sentences._in_batches(tokens_per_batch, order, padded=pad_to_bucket_boundary)


def _of_kind(kind: str, encoded: EncodedTexts, names: Sequence[str] = ()) -> EncodedTexts:
    if encoded.kind != kind:
        raise TypeError(f"`EncodedTexts` must be encoded for {kind}. Received: kind={encoded.kind!r}.")
    if (given := (*names,)) and given != encoded.names:
        raise ValueError(
            f"`{kind}` must be those of the encoded texts, in their order. "
            f"Received: {kind}={[*given]!r:.200}, and {[*encoded.names]!r:.200} in the texts."
        )
    return encoded
