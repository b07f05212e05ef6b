"""Counting the pieces of a corpus."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.text.special_tokens import NUM_SPECIAL_TOKENS

_TEXTS_PER_BATCH = 1024


def text_batches(texts: Iterable[str]) -> Iterator[tf.Tensor]:
    """Groups Python strings into tensors.

    Args:
        texts: any number of strings.

    Yields:
        string (b,).

    Raises:
        TypeError: `texts` is one string, whose characters would be taken for texts.
    """
    if isinstance(texts, str):
        raise TypeError(f"`texts` must be several strings. Received: {texts[:60]!r}.")
    # A lone surrogate has no UTF-8 form; the tokenizer replaces the bytes it leaves.
    rows = (text.encode("utf-8", "surrogatepass") for text in texts)
    while batch := list(itertools.islice(rows, _TEXTS_PER_BATCH)):
        yield tf.constant(batch, tf.string)


def train_vocabulary(
    texts: Iterable[str],
    split: Callable[[tf.Tensor], tf.RaggedTensor],
    is_usable: Callable[[str], bool],
    max_vocabulary_size: int | None = None,
) -> list[str]:
    """Finds the most frequent pieces of a corpus.

    Args:
        texts: the corpus.
        split: maps texts, string (b,), to pieces, string (b, ragged), exactly as the
            tokenizer will.
        is_usable: says which pieces may be in a vocabulary.
        max_vocabulary_size: the most token ids, special ones included; all if None.

    Returns:
        the pieces, most frequent first, equally frequent ones in code point order.

    Raises:
        ValueError: `max_vocabulary_size` has no room for a piece.
        InputError: the corpus holds no usable piece.
    """
    if max_vocabulary_size is not None and max_vocabulary_size <= NUM_SPECIAL_TOKENS:
        raise ValueError(
            f"`max_vocabulary_size` must exceed the {NUM_SPECIAL_TOKENS} special tokens. "
            f"Received: max_vocabulary_size={max_vocabulary_size}."
        )
    counts: Counter[bytes] = Counter()
    for batch in text_batches(texts):
        counts.update(split(batch).flat_values.numpy().tolist())
    pieces = {piece.decode(): count for piece, count in counts.items() if is_usable(piece.decode())}
    if not pieces:
        raise InputError("Cannot train a vocabulary: the corpus holds no text. Received: 0 pieces.")
    ranked = sorted(pieces, key=lambda piece: (-pieces[piece], piece))
    return ranked[: None if max_vocabulary_size is None else max_vocabulary_size - NUM_SPECIAL_TOKENS]
