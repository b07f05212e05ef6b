"""Noise in training pairs: subwords spelled by smaller ones."""

import io
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer, sentencepiece_model_pb2

from keras_transformer.data import subword_dropout, translation_dataset
from keras_transformer.text import SubwordTokenizer

Rows = list[list[int]]
Step = Callable[[tf.data.Dataset], tf.data.Dataset]
TEXTS = ["the lowest tower", "a newer widow", "the newest wide low tower", "lower and lower"]


@pytest.fixture(scope="module")
def tokenizer() -> SubwordTokenizer:
    return SubwordTokenizer.train(TEXTS * 3, vocabulary_size=50)


@pytest.fixture(scope="module")
def token_ids(tokenizer: SubwordTokenizer) -> tf.RaggedTensor:
    return tokenizer.tokenize([*TEXTS, ""] * 20)


def both_sides(step: Step, token_ids: tf.RaggedTensor, num_batches: int = 1) -> list[tuple[Rows, Rows]]:
    dataset = tf.data.Dataset.from_tensors((token_ids, token_ids)).repeat(num_batches).apply(step)
    return [(source.to_list(), target.to_list()) for source, target in dataset]


def test_the_text_stays_and_its_tokens_become_more(
    tokenizer: SubwordTokenizer, token_ids: tf.RaggedTensor
) -> None:
    [(source, target)] = both_sides(subword_dropout(tokenizer, tokenizer, 0.3), token_ids)
    texts = tokenizer.detokenize(token_ids).numpy().tolist()
    for rows in (source, target):
        assert tokenizer.detokenize(tf.ragged.constant(rows, dtype=tf.int32)).numpy().tolist() == texts
        assert sum(map(len, rows)) > 1.2 * int(tf.size(token_ids.flat_values))
    assert source != target
    assert len({tuple(row) for row in source}) > 5 * len(set(texts))


def test_a_side_without_a_tokenizer_is_left_alone(
    tokenizer: SubwordTokenizer, token_ids: tf.RaggedTensor
) -> None:
    [(source, target)] = both_sides(subword_dropout(None, tokenizer, 0.3), token_ids)
    assert source == token_ids.to_list()
    assert target != token_ids.to_list()


def test_no_dropout_changes_nothing(tokenizer: SubwordTokenizer, token_ids: tf.RaggedTensor) -> None:
    [(source, target)] = both_sides(subword_dropout(tokenizer, tokenizer, 0.0), token_ids)
    assert source == target == token_ids.to_list()


def test_a_row_that_would_become_too_long_stays(
    tokenizer: SubwordTokenizer, token_ids: tf.RaggedTensor
) -> None:
    whole = token_ids.to_list()
    limit = max(map(len, whole)) + 2
    [(source, _)] = both_sides(subword_dropout(tokenizer, tokenizer, 0.5, max_length=limit), token_ids)
    assert max(map(len, source)) <= limit
    [(unlimited, _)] = both_sides(subword_dropout(tokenizer, tokenizer, 0.5), token_ids)
    for row, before, free in zip(source, whole, unlimited, strict=True):
        assert row == (free if len(free) <= limit else before)
    assert max(map(len, unlimited)) > limit


def test_the_draws_are_those_of_the_seed_and_of_the_place_of_the_batch(
    tokenizer: SubwordTokenizer, token_ids: tf.RaggedTensor
) -> None:
    first, second = both_sides(subword_dropout(tokenizer, tokenizer, 0.3, seed=1), token_ids, 2)
    assert first != second
    assert [first, second] == both_sides(subword_dropout(tokenizer, tokenizer, 0.3, seed=1), token_ids, 2)
    assert first != both_sides(subword_dropout(tokenizer, tokenizer, 0.3, seed=2), token_ids)[0]


@pytest.mark.parametrize("pad_to_bucket_boundary", [False, True])
def test_a_dataset_takes_it_as_noise(tokenizer: SubwordTokenizer, pad_to_bucket_boundary: bool) -> None:
    pairs = [(text, text) for text in TEXTS * 5]
    dataset = translation_dataset(
        pairs,
        tokenizer,
        tokenizer,
        pad_to_bucket_boundary=pad_to_bucket_boundary,
        noise=[subword_dropout(tokenizer, tokenizer, 0.5)],
    )
    for inputs, labels in dataset.as_numpy_iterator():
        assert np.all(np.count_nonzero(labels == 3, axis=1) == 1)
        assert np.all(np.count_nonzero(inputs["encoder_token_ids"] == 3, axis=1) == 1)
        assert set(tokenizer.detokenize(labels).numpy()) <= {text.encode() for text in TEXTS}


@pytest.mark.slow
def test_a_resumed_run_sees_the_same(tokenizer: SubwordTokenizer) -> None:
    pairs = [(text, text) for text in TEXTS * 5]

    def epochs(first: int, number: int) -> list[list[Rows]]:
        noise = [subword_dropout(tokenizer, tokenizer, 0.5)]
        options = {"tokens_per_batch": 30, "first_epoch": first, "noise": noise}
        dataset = translation_dataset(pairs, tokenizer, tokenizer, **options)
        return [[labels.tolist() for _, labels in dataset.as_numpy_iterator()] for _ in range(number)]

    uninterrupted = epochs(0, 3)
    assert uninterrupted[1] != uninterrupted[2]
    assert epochs(1, 2) == uninterrupted[1:]


def spellings_of(
    tokenizer: SubwordTokenizer, rate: float, token_ids: list[int], num_draws: int = 8
) -> dict[int, Rows]:
    """Draw spellings of tokens, each in a row by itself."""
    ids = tf.ragged.constant([[token_id] for token_id in token_ids for _ in range(num_draws)], dtype=tf.int32)
    [(source, _)] = both_sides(subword_dropout(tokenizer, None, rate, num_samples=num_draws), ids)
    return {token_id: source[i * num_draws : (i + 1) * num_draws] for i, token_id in enumerate(token_ids)}


def test_every_spelling_has_the_text_of_its_piece(tokenizer: SubwordTokenizer) -> None:
    pieces = tokenizer.tokens([list(range(50))])[0].numpy()
    spellings = spellings_of(tokenizer, 0.5, list(range(4, 50)))
    for token_id, rows in spellings.items():
        assert {b"".join(pieces[row]) for row in rows} == {pieces[token_id]}
    assert max(len(row) for rows in spellings.values() for row in rows) > 3


def test_special_tokens_stay_whole(tokenizer: SubwordTokenizer) -> None:
    assert spellings_of(tokenizer, 0.9, [0, 1, 2, 3]) == {i: [[i]] * 8 for i in range(4)}


def test_symbols_and_bytes_stay_whole() -> None:
    """A language tag that is spelled by its letters is no tag, and a byte no text."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([*TEXTS * 3, "< 2 d e > 0 x E 8 A C"] * 3),
        model_writer=model,
        model_type="bpe",
        vocab_size=320,
        user_defined_symbols=["<2de>"],
        byte_fallback=True,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        pad_piece="[PAD]",
        unk_piece="[UNK]",
        bos_piece="[START]",
        eos_piece="[END]",
        hard_vocab_limit=False,
        minloglevel=2,
    )
    processor = SentencePieceProcessor(model_proto=model.getvalue())
    tokenizer = SubwordTokenizer(model.getvalue())
    tags = [processor.piece_to_id(piece) for piece in ("<2de>", "<0xE2>")]
    size = tokenizer.vocabulary_size
    spellings = spellings_of(tokenizer, 0.9, [*tags, *range(size - 50, size)])
    assert [spellings[token_id] for token_id in tags] == [[[token_id]] * 8 for token_id in tags]
    longer = [row for rows in spellings.values() for row in rows if len(row) > 1]
    assert longer
    assert not any(token_id in row for token_id in tags for row in longer)


@pytest.mark.slow
def test_spellings_are_as_frequent_as_those_of_sentencepiece(tokenizer: SubwordTokenizer) -> None:
    processor, num_draws = SentencePieceProcessor(model_proto=tokenizer.proto), 4000
    token_id = processor.encode("tower")[0]
    assert len(processor.id_to_piece(token_id)) >= 4
    word = processor.id_to_piece(token_id).lstrip("\u2581")
    theirs = Counter(
        tuple(processor.encode(word, enable_sampling=True, alpha=0.3, nbest_size=-1))
        for _ in range(num_draws)
    )
    ours = Counter(map(tuple, spellings_of(tokenizer, 0.3, [token_id], num_draws)[token_id]))
    for spelling in theirs | ours:
        shares = theirs[spelling] / num_draws, ours[spelling] / num_draws
        assert abs(shares[0] - shares[1]) < 5 * (0.25 / num_draws) ** 0.5, spelling
    assert len(ours) > 3


def test_a_piece_with_a_character_that_the_vocabulary_lacks_stays_whole(tokenizer: SubwordTokenizer) -> None:
    model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.proto)
    model.pieces[10].piece = "xyz"
    changed = SubwordTokenizer(model.SerializeToString())
    assert spellings_of(changed, 0.9, [10]) == {10: [[10]] * 8}


def test_bad_arguments(tokenizer: SubwordTokenizer) -> None:
    with pytest.raises(ValueError, match=r"`rate` must be at least 0 and below 1\. Received: rate=1\."):
        subword_dropout(tokenizer, None, 1)
    with pytest.raises(ValueError, match=r"`num_samples` must be above zero\. Received: num_samples=0\."):
        subword_dropout(tokenizer, None, 0.1, num_samples=0)
    unigram = SubwordTokenizer.train(TEXTS * 3, vocabulary_size=24, model_type="unigram")
    with pytest.raises(ValueError, match=r"of type 'bpe'\. Received: 'unigram'\."):
        subword_dropout(None, unigram, 0.1)
