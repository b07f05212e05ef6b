"""What remains of a text that goes through a vocabulary."""

from collections.abc import Sequence
from typing import Any

from keras_transformer.decoding.answers import utf8


def respelled(texts: Sequence[str], tokenizer: Any) -> list[str]:
    """Tokenize texts, and join their tokens again.

    Args:
        texts: any.
        tokenizer: of their language.

    Returns:
        Each text as a model with this vocabulary would write it: in lower case, with other spaces or
        characters, where that is how the tokenizer reads it.
    """
    written = tokenizer.detokenize(tokenizer.tokenize(utf8(texts))).numpy().tolist()
    return [text.decode("utf-8", "replace") for text in written]
