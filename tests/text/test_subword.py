import io
from pathlib import Path

import keras
import pytest
import sentencepiece

from keras_transformer.errors import InputError
from keras_transformer.text import SubwordTokenizer, Tokenizer, VocabularyWarning

CORPUS = ["the cat sat on the mat", "The dog sat", "the rat"]


@pytest.fixture(scope="module")
def tokenizer() -> SubwordTokenizer:
    return SubwordTokenizer.train(CORPUS, vocabulary_size=28)


def test_frequent_words_are_one_token(tokenizer: SubwordTokenizer) -> None:
    (pieces,) = tokenizer.tokens(tokenizer.tokenize(["the cat"])).numpy().tolist()
    assert [piece.decode() for piece in pieces] == ["▁the", "▁c", "at"]


def test_the_vocabulary_has_the_wanted_size(tokenizer: SubwordTokenizer) -> None:
    assert tokenizer.vocabulary_size == 28


def test_unknown_characters_are_unknown(tokenizer: SubwordTokenizer) -> None:
    assert 1 in tokenizer.tokenize(["漢"]).to_list()[0]


def test_damaged_bytes_are_taken_for_a_space(tokenizer: SubwordTokenizer) -> None:
    wanted, *rows = tokenizer.tokenize([b"the cat", b"the\xffcat", b"the\x00cat"]).to_list()
    assert rows == [wanted, wanted]


def test_lowercase_is_an_option() -> None:
    tokenizer = SubwordTokenizer.train(CORPUS, vocabulary_size=20, lowercase=True)
    assert tokenizer.tokenize(["THE CAT"]).to_list() == tokenizer.tokenize(["the cat"]).to_list()
    assert b"T" not in tokenizer.tokens([list(range(20))]).numpy()


def test_proto_must_be_bytes() -> None:
    with pytest.raises(TypeError, match=r"`proto` must be bytes\. Received: 'model\.spm' of type "):
        SubwordTokenizer("model.spm")


@pytest.mark.parametrize("proto", [b"", b"garbage"])
def test_proto_must_be_a_model(proto: bytes) -> None:
    with pytest.raises(ValueError, match=rf"must be a SentencePiece model\. Received: {len(proto)} bytes"):
        SubwordTokenizer(proto)


def test_proto_must_have_our_special_tokens() -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=model, vocab_size=18, minloglevel=2
    )
    with pytest.raises(ValueError, match=r"must start with \('\[PAD\]', .*Received: \('<unk>', '<s>'"):
        SubwordTokenizer(model.getvalue())


def test_a_damaged_file_is_named(tokenizer: SubwordTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    path = tmp_path / "vocabulary.spm"
    path.write_bytes(b"garbage")
    with pytest.raises(InputError, match=rf"^{path} is damaged\. `proto` must be a SentencePiece model"):
        Tokenizer.load(tmp_path)


def test_another_model_is_refused(tokenizer: SubwordTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    other = SubwordTokenizer.train(CORPUS, vocabulary_size=29)
    (tmp_path / "vocabulary.spm").write_bytes(other.proto)
    with pytest.raises(InputError, match=r"vocabulary\.spm is damaged: SHA-256 must be "):
        Tokenizer.load(tmp_path)


def test_the_model_survives_a_new_global_seed() -> None:
    tokenizer = SubwordTokenizer.train(CORPUS, vocabulary_size=28)
    before = tokenizer.tokenize(["the cat sat"]).to_list()
    keras.utils.set_random_seed(3)  # clears the cache that keeps TensorFlow Text's model
    assert tokenizer.tokenize(["the cat sat"]).to_list() == before
    keras.utils.set_random_seed(4)
    assert tokenizer.detokenize(before).numpy().tolist() == [b"the cat sat"]


SMALL = ["the cat sat on the mat", "the dog sat"]


def train(texts: list[str], size: int = 24, model_type: str = "bpe") -> bytes:
    return SubwordTokenizer.train(texts, size, model_type).proto


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_the_same_corpus_gives_the_same_model(model_type: str) -> None:
    assert train(SMALL, 18, model_type) == train(SMALL, 18, model_type)


def test_training_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    train(SMALL)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
@pytest.mark.parametrize("texts", [SMALL, ["a"], ["x" * 500]])
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
        tokenizer = SubwordTokenizer.train(SMALL)
    assert caught[0].filename == __file__  # the line of the caller
    assert tokenizer.detokenize(tokenizer.tokenize(SMALL)).numpy()[0].decode() == SMALL[0]


def test_a_size_below_the_alphabet_names_the_alphabet() -> None:
    with pytest.raises(InputError, match=r"of 9 tokens on this corpus: its characters alone need 16 tokens"):
        train(SMALL, 9)


@pytest.mark.parametrize("texts", [[], ["", "  "], ["\0", "\ufffd"]])
def test_a_corpus_without_text_is_named(texts: list[str]) -> None:
    with pytest.raises(InputError, match=r"the corpus holds no text\. Received: 0 lines\."):
        train(texts)


def test_an_unknown_model_type_is_named() -> None:
    with pytest.raises(ValueError, match=r"one of 'bpe', 'unigram'\. Received: model_type='word'\."):
        train(SMALL, model_type="word")


def test_long_lines_are_learned_from() -> None:
    tokenizer = SubwordTokenizer(train(["x" * 5000 + " q"], 12))
    assert 1 not in tokenizer.tokenize(["q x"]).flat_values.numpy()


def test_damaged_characters_are_not_learned() -> None:
    tokenizer = SubwordTokenizer(train([*SMALL, "a\0\ufffd\ud800b"], 24))
    pieces = tokenizer.tokens([list(range(24))]).numpy()[0]
    assert not any("\ufffd" in piece.decode() for piece in pieces)


def test_errors_are_one_line() -> None:
    for size in (-1, 0, 1, 9):
        with pytest.raises(InputError) as error:
            train(SMALL, size)
        assert "\n" not in str(error.value)
        assert str(size) in str(error.value)


@pytest.mark.parametrize("vocabulary_size", [-1, 0, 4])
def test_no_room_beside_the_special_tokens(vocabulary_size: int) -> None:
    with pytest.raises(InputError, match=rf"above 4, .* Received: vocabulary_size={vocabulary_size}\."):
        train(["a"], vocabulary_size)


def test_characters_are_replaced_or_kept() -> None:
    text = "\u4f60\u597d\uff0c\u4e16\u754c\uff01 m\u00b2 \u0645\u06cc\u200c\u062e"
    texts = [text] * 3
    usual = SubwordTokenizer.train(texts, 25)
    assert usual.round_trip([text]) == ["\u4f60\u597d,\u4e16\u754c! m2 \u0645\u06cc \u062e"]
    assert SubwordTokenizer.train(texts, 25, normalization_rule="identity").round_trip([text]) == [text]
    with pytest.raises(ValueError, match="normalization_rule='nfd'"):
        SubwordTokenizer.train(texts, 25, normalization_rule="nfd")
