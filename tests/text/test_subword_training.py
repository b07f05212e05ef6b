import pytest

from keras_transformer.errors import InputError
from keras_transformer.text import SubwordTokenizer, VocabularyWarning
from keras_transformer.text.subword import train_sentence_piece

CORPUS = ["the cat sat on the mat", "the dog sat"]


def train(texts: list[str], size: int = 24, model_type: str = "bpe") -> bytes:
    return train_sentence_piece(texts, vocabulary_size=size, model_type=model_type, lowercase=False)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_the_same_corpus_gives_the_same_model(model_type: str) -> None:
    assert train(CORPUS, 18, model_type) == train(CORPUS, 18, model_type)


def test_training_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    train(CORPUS)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
@pytest.mark.parametrize("texts", [CORPUS, ["a"], ["x" * 500]])
def test_a_small_corpus_gives_all_that_it_yields(texts: list[str], model_type: str) -> None:
    message = r"^The corpus is too small for a subword vocabulary of 8000 tokens\. It yields (\d+), which"
    with pytest.warns(VocabularyWarning, match=message) as caught:
        proto = train(texts, 8000, model_type)
    [warning] = caught
    largest = int(str(warning.message).split("yields ")[1].split(",")[0])
    assert SubwordTokenizer(proto).vocabulary_size == largest
    assert proto == train(texts, largest, model_type)
    with pytest.warns(VocabularyWarning, match=f"yields {largest},"):
        train(texts, largest + 1, model_type)


def test_the_default_size_is_for_small_corpora_too() -> None:
    with pytest.warns(VocabularyWarning) as caught:
        tokenizer = SubwordTokenizer.train(CORPUS)
    assert caught[0].filename == __file__  # the line of the caller
    assert tokenizer.detokenize(tokenizer.tokenize(CORPUS)).numpy()[0].decode() == CORPUS[0]


def test_a_size_below_the_alphabet_names_the_alphabet() -> None:
    with pytest.raises(InputError, match=r"of 9 tokens on this corpus: its characters alone need 16 tokens"):
        train(CORPUS, 9)


@pytest.mark.parametrize("texts", [[], ["", "  "], ["\0", "\ufffd"]])
def test_a_corpus_without_text_is_named(texts: list[str]) -> None:
    with pytest.raises(InputError, match=r"the corpus holds no text\. Received: 0 lines\."):
        train(texts)


def test_an_unknown_model_type_is_named() -> None:
    with pytest.raises(ValueError, match=r"one of \('bpe', 'unigram'\)\. Received: 'word'\."):
        train(CORPUS, model_type="word")


def test_long_lines_are_learned_from() -> None:
    tokenizer = SubwordTokenizer(train(["x" * 5000 + " q"], 12))
    assert 1 not in tokenizer.tokenize(["q x"]).flat_values.numpy()


def test_damaged_characters_are_not_learned() -> None:
    tokenizer = SubwordTokenizer(train([*CORPUS, "a\0\ufffd\ud800b"], 24))
    pieces = tokenizer.tokens([list(range(24))]).numpy()[0]
    assert not any("\ufffd" in piece.decode() for piece in pieces)


def test_errors_are_one_line() -> None:
    for size in (-1, 0, 1, 9):
        with pytest.raises(InputError) as error:
            train(CORPUS, size)
        assert "\n" not in str(error.value)
        assert str(size) in str(error.value)


@pytest.mark.parametrize("vocabulary_size", [-1, 0, 4])
def test_no_room_beside_the_special_tokens(vocabulary_size: int) -> None:
    with pytest.raises(InputError, match=rf"above 4, .* Received: vocabulary_size={vocabulary_size}\."):
        train_sentence_piece(["a"], vocabulary_size=vocabulary_size, model_type="bpe", lowercase=False)
