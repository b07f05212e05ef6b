import io
from collections import Counter

import numpy as np
import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from keras_transformer.data.noise import sample_spellings
from keras_transformer.text import SubwordTokenizer

TEXTS = ["the lowest tower", "a newer widow", "the newest wide low tower", "lower and lower"] * 3


@pytest.fixture(scope="module")
def tokenizer() -> SubwordTokenizer:
    return SubwordTokenizer.train(TEXTS, vocabulary_size=50)


def texts_of(tokenizer: SubwordTokenizer, rows: list[list[int]]) -> list[str]:
    pieces = [piece.decode() for piece in tokenizer._pieces.numpy()]
    return ["".join(pieces[token_id] for token_id in row) for row in rows]


def test_every_spelling_has_the_text_of_its_piece(tokenizer: SubwordTokenizer) -> None:
    spellings = sample_spellings(tokenizer.proto, 0.5, 8)
    assert spellings.shape.as_list() == [50, 9, None]
    for token_id, rows in enumerate(spellings.to_list()):
        assert rows[0] == [token_id]
        assert set(texts_of(tokenizer, rows)) == set(texts_of(tokenizer, [[token_id]]))
    lengths = spellings.merge_dims(0, 1).row_lengths()
    assert np.max(lengths) > 3


def test_without_dropout_every_piece_stays_whole(tokenizer: SubwordTokenizer) -> None:
    spellings = sample_spellings(tokenizer.proto, 0.0, 1).to_list()
    assert spellings == [[[token_id], [token_id]] for token_id in range(50)]


def test_special_tokens_stay_whole(tokenizer: SubwordTokenizer) -> None:
    spellings = sample_spellings(tokenizer.proto, 0.9, 8).to_list()
    assert spellings[:4] == [[[token_id]] * 9 for token_id in range(4)]


def test_symbols_and_bytes_stay_whole() -> None:
    """A language tag that is spelled by its letters is no tag, and a byte no text."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([*TEXTS, "< 2 d e > 0 x E 8 A C"] * 3),
        model_writer=model,
        model_type="bpe",
        vocab_size=320,
        user_defined_symbols=["<2de>"],
        byte_fallback=True,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    processor = SentencePieceProcessor(model_proto=model.getvalue())
    spellings = sample_spellings(model.getvalue(), 0.9, 8).to_list()
    tags = [processor.piece_to_id(piece) for piece in ("<2de>", "<0xE2>")]
    assert [spellings[token_id] for token_id in tags] == [[[token_id]] * 9 for token_id in tags]
    assert not any(
        token_id in row for token_id in tags for rows in spellings[5:] for row in rows[1:] if len(row) > 1
    )
    assert any(len(row) > 1 for rows in spellings for row in rows)


def test_spellings_are_as_frequent_as_those_of_sentencepiece(tokenizer: SubwordTokenizer) -> None:
    processor, num_draws = SentencePieceProcessor(model_proto=tokenizer.proto), 4000
    token_id = processor.encode("tower")[0]
    assert len(processor.id_to_piece(token_id)) >= 4
    word = processor.id_to_piece(token_id).lstrip("\u2581")
    theirs = Counter(
        tuple(processor.encode(word, enable_sampling=True, alpha=0.3, nbest_size=-1))
        for _ in range(num_draws)
    )
    rows = sample_spellings(tokenizer.proto, 0.3, num_draws)[token_id, 1:].to_list()
    ours = Counter(map(tuple, rows))
    for spelling in theirs | ours:
        shares = theirs[spelling] / num_draws, ours[spelling] / num_draws
        assert abs(shares[0] - shares[1]) < 5 * (0.25 / num_draws) ** 0.5, spelling
    assert len(ours) > 3


def test_the_draws_are_those_of_the_seed(tokenizer: SubwordTokenizer) -> None:
    first = sample_spellings(tokenizer.proto, 0.5, 8, seed=1).to_list()
    assert first == sample_spellings(tokenizer.proto, 0.5, 8, seed=1).to_list()
    assert first != sample_spellings(tokenizer.proto, 0.5, 8, seed=2).to_list()


def test_a_piece_with_a_character_that_the_vocabulary_lacks_stays_whole(tokenizer: SubwordTokenizer) -> None:
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.proto)
    model.pieces[10].piece = "xyz"
    changed = SubwordTokenizer(model.SerializeToString())
    assert sample_spellings(changed.proto, 0.9, 4)[10].to_list() == [[10]] * 5


def test_bad_arguments(tokenizer: SubwordTokenizer) -> None:
    with pytest.raises(ValueError, match=r"`rate` must be at least 0 and below 1\. Received: rate=1\."):
        sample_spellings(tokenizer.proto, 1)
    with pytest.raises(ValueError, match=r"`num_samples` must be at least 1\. Received: num_samples=0\."):
        sample_spellings(tokenizer.proto, 0.1, 0)
    unigram = SubwordTokenizer.train(TEXTS, vocabulary_size=24, model_type="unigram")
    with pytest.raises(ValueError, match=r"of type 'bpe' alone\. Received: 'unigram'\."):
        sample_spellings(unigram.proto, 0.1)
