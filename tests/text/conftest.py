import pytest

from keras_transformer.text import (
    CharacterTokenizer,
    SubwordTokenizer,
    Tokenizer,
    WhitespaceTokenizer,
)

CORPUS = ["A dog runs.", "a cat sits\ton it", "the cat runs", "the dog sits"]


@pytest.fixture(scope="session")
def tokenizers() -> dict[str, Tokenizer]:
    return {
        "character": CharacterTokenizer.train(CORPUS),
        "whitespace": WhitespaceTokenizer.train(CORPUS),
        "subword": SubwordTokenizer.train(CORPUS, vocabulary_size=30),
    }


@pytest.fixture(params=["character", "whitespace", "subword"])
def tokenizer(request: pytest.FixtureRequest, tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    return tokenizers[request.param]
