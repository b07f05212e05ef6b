"""Tokenizers of others in the graph: their splits, our ids, files and exports."""

import io
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.text import Tokenizer, as_tokenizer

CORPUS = ["a dog runs", "the cat sits on it", "the dog sits", "a cat runs"]
KINDS = ("words", "byte_pair", "word_piece", "sentence_piece")


def make_words() -> Any:
    layer = keras.layers.TextVectorization()
    layer.adapt(CORPUS)
    return layer


def make_byte_pair() -> Any:
    from keras_nlp.tokenizers import BytePairTokenizer

    letters = ["<|endoftext|>", *"adogrunsthecit", "\u0120", "!"]
    merges = ["\u0120 d", "\u0120d o", "\u0120do g", "t h", "th e"]
    vocabulary = [*letters, *(merge.replace(" ", "") for merge in merges)]
    return BytePairTokenizer({piece: number for number, piece in enumerate(vocabulary)}, merges)


def make_word_piece() -> Any:
    from keras_nlp.tokenizers import WordPieceTokenizer

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "dog", "the", "cat", "run", "##s", "sit", "!"]
    return WordPieceTokenizer(vocabulary, lowercase=True, strip_accents=True)


def make_sentence_piece() -> bytes:
    """Its special tokens are others, at other places than ours, and there is no padding."""
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=model, vocab_size=25, minloglevel=2, model_type="bpe"
    )
    return model.getvalue()


@pytest.fixture(scope="module")
def others() -> dict[str, Any]:
    return {kind: globals()[f"make_{kind}"]() for kind in KINDS}


@pytest.fixture(
    params=[pytest.param(kind, marks=pytest.mark.slow if kind == "word_piece" else []) for kind in KINDS],
    scope="module",
)
def tokenizer(request: pytest.FixtureRequest, others: dict[str, Any]) -> Tokenizer:
    return as_tokenizer(others[request.param])


def test_texts_come_back(tokenizer: Tokenizer) -> None:
    assert tokenizer.round_trip(["the dog runs", "", "a cat"]) == ["the dog runs", "", "a cat"]
    ids = tokenizer.padded_ids(["the dog runs", "a cat"], 50).numpy()
    assert ids.max() < tokenizer.vocabulary_size
    assert (ids[ids != 0] > 2).all()  # neither unknown nor start
    assert tokenizer.tokens([[0, 1, 2, 3]]).numpy().tolist() == [[b"", b"[UNK]", b"[START]", b"[END]"]]


def test_a_text_has_no_special_tokens(tokenizer: Tokenizer) -> None:
    hard = ["[PAD] <s> </s> [CLS] [start] [end] <|endoftext|>", "\U0001f600 \u05e9", "a\0b", "\ud800"]
    flat = tokenizer.tokenize([*hard, b"\xff\xfe\xc3"]).flat_values.numpy()
    assert {*flat.tolist()}.isdisjoint({0, 2, 3})
    assert flat.max() < tokenizer.vocabulary_size
    # Every id is text or left out; bytes that join to no UTF-8 are no error.
    texts = tokenizer.detokenize([[number] for number in range(-1, tokenizer.vocabulary_size + 2)]).numpy()
    assert [text.decode() for text in texts][:5] == [""] * 5


@pytest.mark.slow
def test_the_pieces_are_those_of_the_other(others: dict[str, Any]) -> None:
    layer, tokenizer = others["words"], as_tokenizer(others["words"])
    texts = ["The dog, runs!", "a bird SITS"]
    names = [
        [name.decode() for name in row if name] for row in tokenizer.tokens(tokenizer.tokenize(texts)).numpy()
    ]
    vocabulary = layer.get_vocabulary()
    theirs = [
        [vocabulary[number] for number in row if number] for row in keras.ops.convert_to_numpy(layer(texts))
    ]
    assert names == theirs == [["the", "dog", "runs"], ["a", "[UNK]", "sits"]]
    for kind in ("byte_pair", "word_piece"):
        layer, tokenizer = others[kind], as_tokenizer(others[kind])
        wanted = [layer.id_to_token(int(number)) for number in layer.tokenize("the dog runs")]
        [found] = tokenizer.tokens(tokenizer.tokenize(["the dog runs"])).numpy()
        assert [name.decode() for name in found] == wanted


def test_it_is_saved_and_read(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert loaded.fingerprint() == tokenizer.fingerprint()
    texts = ["the dog runs", "x"]
    assert loaded.tokenize(texts).to_list() == tokenizer.tokenize(texts).to_list()
    keras.utils.set_random_seed(1)  # which clears TensorFlow's resources
    assert loaded.round_trip(texts[:1]) == texts[:1]
    path = tmp_path / "vocabulary.json"
    path.write_bytes(b'{"kind": "words"}')
    with pytest.raises(InputError, match=r"vocabulary\.json is damaged\. It must describe a tokenizer"):
        Tokenizer.load(tmp_path)


def test_a_model_is_read_from_its_file(others: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.model").write_bytes(others["sentence_piece"])
    fingerprint = as_tokenizer(others["sentence_piece"]).fingerprint()
    assert as_tokenizer(tmp_path / "a.model").fingerprint() == fingerprint
    with pytest.raises(InputError, match=r"Cannot read .*b\.model"):
        as_tokenizer(str(tmp_path / "b.model"))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: b"no model", ValueError, r"must be a SentencePiece model\. Received: 8 bytes"),
        (lambda: 3, TypeError, r"`tokenizer` must be one of \['BytePair.*Received: a int"),
        (lambda: keras.layers.TextVectorization(), ValueError, r"must be adapted\. Received: vocabulary="),
        (
            lambda: keras.layers.TextVectorization(output_mode="count", vocabulary=["a", "b"]),
            ValueError,
            r"`output_mode` of a TextVectorization must be one of \('int',\)\. Received: output_mode='count'",
        ),
        (
            lambda: keras.layers.TextVectorization(standardize=tf.strings.lower, vocabulary=["a"]),
            ValueError,
            r"`standardize` of a TextVectorization must be one of",
        ),
    ],
)
def test_others_are_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        as_tokenizer(make())


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="exports are made on TensorFlow")
def test_it_is_exported(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """With operations of TensorFlow and TensorFlow Text alone, which `ServedModel` knows."""
    size = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 8}
    model = kt.CausalLM(tokenizer.vocabulary_size, **size)
    generator = kt.TextGenerator(model, tokenizer, max_length=16)
    version = kt.export.export_saved_model(generator, tmp_path / "model", ["the dog", "a cat"])
    served = kt.export.ServedModel(version)
    assert served.translate(["the dog runs"]) == generator.generate(["the dog runs"])


def test_a_byte_without_a_token_is_no_part_of_a_pair() -> None:
    from keras_nlp.tokenizers import BytePairTokenizer

    tokenizer = as_tokenizer(BytePairTokenizer({"a": 0, "b": 1, "az": 2, "z": 3}, ["a z"]))
    assert tokenizer.tokens(tokenizer.tokenize(["bq"])).numpy().tolist() == [[b"b", b"[UNK]"]]
    assert tokenizer.tokens(tokenizer.tokenize(["az"])).numpy().tolist() == [[b"az"]]
