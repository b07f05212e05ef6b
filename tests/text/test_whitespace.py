from pathlib import Path

import pytest

from keras_transformer.text import WhitespaceTokenizer


def test_one_token_per_word() -> None:
    tokenizer = WhitespaceTokenizer(["AA", "B", "ER"])
    assert tokenizer.tokenize(["AA B\u3000ER", "", "\tB  X "]).to_list() == [[4, 5, 6], [], [5, 1]]


def test_words_are_joined_with_one_space() -> None:
    tokenizer = WhitespaceTokenizer(["AA", "B"])
    assert tokenizer.detokenize([[4, 5, 3], [0, 0, 0]]).numpy().tolist() == [b"AA B", b""]


def test_a_part_of_a_word_is_unknown() -> None:
    assert WhitespaceTokenizer(["AA"]).tokenize(["A AAA \0AA"]).to_list() == [[1, 1, 1]]


def test_training_finds_the_words() -> None:
    tokenizer = WhitespaceTokenizer.train(["AA B", "b [END]", "a\ud800"], lowercase=True)
    assert tokenizer.vocabulary == ("b", "[end]", "aa")
    assert tokenizer.tokenize(["B AA"]).to_list() == [[4, 6]]


def test_names_of_special_tokens_are_unknown_words() -> None:
    tokenizer = WhitespaceTokenizer.train(["a [END]"])
    assert tokenizer.vocabulary == ("a",)
    assert tokenizer.tokenize(["a [END] [PAD]"]).to_list() == [[4, 1, 1]]


@pytest.mark.parametrize("word", ["a b", " a", "a\u2028", " ", ""])
def test_pieces_must_be_single_words(word: str) -> None:
    with pytest.raises(ValueError, match=r"must hold single words\. Received: "):
        WhitespaceTokenizer(["a", word])


def test_vocabulary_survives_the_file(tmp_path: Path) -> None:
    WhitespaceTokenizer(['"', "\\n", "é"], lowercase=True).save(tmp_path)
    loaded = WhitespaceTokenizer.load(tmp_path)
    assert (loaded.vocabulary, loaded.lowercase) == (('"', "\\n", "é"), True)
