"""Reading a saved tokenizer of any kind."""

from pathlib import Path

from keras_transformer.errors import InputError
from keras_transformer.text.lookup_tokenizer import CharacterTokenizer, WhitespaceTokenizer
from keras_transformer.text.subword import SubwordTokenizer
from keras_transformer.text.tokenizer import OPTIONS_FILE, Tokenizer, read_options

TOKENIZERS: dict[str, type[Tokenizer]] = {
    tokenizer.kind: tokenizer for tokenizer in (CharacterTokenizer, SubwordTokenizer, WhitespaceTokenizer)
}


def load_tokenizer(directory: str | Path) -> Tokenizer:
    """Reads a tokenizer, whatever its kind.

    Args:
        directory: where `Tokenizer.save` wrote.

    Returns:
        the tokenizer.

    Raises:
        InputError: a file is missing or damaged, or the kind is unknown; the message
            names the file.
    """
    kind = read_options(Path(directory)).get("kind")
    if not isinstance(kind, str) or kind not in TOKENIZERS:
        path = Path(directory) / OPTIONS_FILE
        raise InputError(f"{path}: kind must be one of {tuple(TOKENIZERS)}. Received: {kind!r}.")
    return TOKENIZERS[kind].load(directory)
