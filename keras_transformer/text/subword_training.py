"""Training a SentencePiece model on a corpus."""

import io
import re
import warnings
from collections.abc import Iterable

from keras_transformer.errors import InputError
from keras_transformer.text.normalization import REPLACEMENT_CHARACTER, normalize
from keras_transformer.text.special_tokens import (
    END_ID,
    PAD_ID,
    SPECIAL_TOKENS,
    START_ID,
    UNKNOWN_ID,
)
from keras_transformer.text.vocabulary_training import text_batches

MODEL_TYPES = ("bpe", "unigram")

_DEFAULT_MAX_SENTENCE_LENGTH = 4192


class VocabularyWarning(UserWarning):
    """A corpus yields fewer subwords than were wanted, and the vocabulary is smaller."""


def train_sentence_piece(
    texts: Iterable[str],
    *,
    vocabulary_size: int,
    model_type: str,
    lowercase: bool,
) -> bytes:
    """Trains a SentencePiece model with this library's special tokens.

    The same corpus gives the same model: one thread, no sampling, every character kept.

    Args:
        texts: the corpus.
        vocabulary_size: the number of token ids, special ones included; fewer where the corpus
            yields fewer.
        model_type: `"bpe"` or `"unigram"`.
        lowercase: whether texts are lower-cased first.

    Returns:
        the serialized model.

    Raises:
        ValueError: `model_type` is unknown.
        InputError: the corpus is empty, there is no room beside the special tokens, or its
            characters alone are more than `vocabulary_size`; the message says how many are needed.

    Warns:
        VocabularyWarning: the corpus yields fewer pieces; all that it yields are taken.
    """
    if model_type not in MODEL_TYPES:
        raise ValueError(f"`model_type` must be one of {MODEL_TYPES}. Received: {model_type!r}.")
    if vocabulary_size <= len(SPECIAL_TOKENS):
        raise InputError(
            f"`vocabulary_size` must be above {len(SPECIAL_TOKENS)}, the number of special tokens. "
            f"Received: vocabulary_size={vocabulary_size}."
        )
    lines = _training_lines(texts, lowercase)
    try:
        return _train(lines, vocabulary_size, model_type)
    except RuntimeError as error:
        largest = _largest_size(str(error))
        if largest is None:
            raise InputError(_explanation(str(error), vocabulary_size)) from error
    warnings.warn(
        f"The corpus is too small for a subword vocabulary of {vocabulary_size} tokens. "
        f"It yields {largest}, which are taken.",
        VocabularyWarning,
        stacklevel=3,  # whoever called SubwordTokenizer.train
    )
    return _train(lines, largest, model_type)


def _training_lines(texts: Iterable[str], lowercase: bool) -> list[bytes]:
    """Normalizes the corpus as the tokenizer will, without unusable characters."""
    batches = (normalize(batch, lowercase=lowercase).numpy() for batch in text_batches(texts))
    replacement = REPLACEMENT_CHARACTER.encode()
    lines = [line.replace(replacement, b" ").strip() for batch in batches for line in batch]
    lines = [line for line in lines if line]
    if not lines:
        raise InputError("Cannot train a vocabulary: the corpus holds no text. Received: 0 lines.")
    return lines


def _train(lines: list[bytes], vocabulary_size: int, model_type: str) -> bytes:
    # Imported here: characters and words need no SentencePiece.
    from sentencepiece import SentencePieceTrainer

    pad, unknown, start, end = SPECIAL_TOKENS
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=vocabulary_size,
        model_type=model_type,
        # The default leaves out longer lines without a word.
        max_sentence_length=max(_DEFAULT_MAX_SENTENCE_LENGTH, *map(len, lines)) + 1,
        character_coverage=1.0,
        num_threads=1,
        minloglevel=2,
        pad_id=PAD_ID,
        unk_id=UNKNOWN_ID,
        bos_id=START_ID,
        eos_id=END_ID,
        pad_piece=pad,
        unk_piece=unknown,
        bos_piece=start,
        eos_piece=end,
    )
    return model.getvalue()


def _largest_size(message: str) -> int | None:
    """Reads how many tokens a corpus yields, if SentencePiece has failed because they are too few."""
    largest = re.search(r"value <= (\d+)", message)
    return int(largest[1]) if largest else None


def _explanation(message: str, vocabulary_size: int) -> str:
    """Says in one line what SentencePiece says in several, with a source position."""
    start = f"Cannot train a subword vocabulary of {vocabulary_size} tokens on this corpus: "
    smallest = re.search(r"required_chars\. \d+ vs (\d+)", message)
    if smallest:
        return f"{start}its characters alone need {smallest[1]} tokens."
    return start + " ".join(message.split())
