import io
from pathlib import Path

import keras
import pytest
import sentencepiece

from keras_transformer.errors import InputError
from keras_transformer.text import SPECIAL_TOKENS, SubwordTokenizer

CORPUS = ["the cat sat on the mat", "The dog sat", "the rat"]


@pytest.fixture(scope="module")
def tokenizer() -> SubwordTokenizer:
    return SubwordTokenizer.train(CORPUS, vocabulary_size=28)


def test_frequent_words_are_one_token(tokenizer: SubwordTokenizer) -> None:
    (pieces,) = tokenizer.tokens(tokenizer.tokenize(["the cat"])).numpy().tolist()
    assert [piece.decode() for piece in pieces] == ["▁the", "▁c", "at"]


def test_special_tokens_come_first(tokenizer: SubwordTokenizer) -> None:
    pieces = tokenizer.tokens([[1, 2, 3]]).numpy()[0]
    assert tuple(piece.decode() for piece in pieces) == SPECIAL_TOKENS[1:]
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
        SubwordTokenizer.load(tmp_path)


def test_another_model_is_refused(tokenizer: SubwordTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    other = SubwordTokenizer.train(CORPUS, vocabulary_size=29)
    (tmp_path / "vocabulary.spm").write_bytes(other.proto)
    with pytest.raises(InputError, match=r"vocabulary\.spm is damaged: SHA-256 must be "):
        SubwordTokenizer.load(tmp_path)


def test_the_model_survives_a_new_global_seed() -> None:
    tokenizer = SubwordTokenizer.train(CORPUS, vocabulary_size=28)
    before = tokenizer.tokenize(["the cat sat"]).to_list()
    keras.utils.set_random_seed(3)  # clears the cache that keeps TensorFlow Text's model
    assert tokenizer.tokenize(["the cat sat"]).to_list() == before
    keras.utils.set_random_seed(4)
    assert tokenizer.detokenize(before).numpy().tolist() == [b"the cat sat"]
