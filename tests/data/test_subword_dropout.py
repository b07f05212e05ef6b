import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data import subword_dropout, translation_dataset
from keras_transformer.data.transformations import Transformation
from keras_transformer.text import SubwordTokenizer

TEXTS = ["the lowest tower", "a newer widow", "the newest wide low tower", "lower and lower"]
Rows = list[list[int]]


@pytest.fixture(scope="module")
def tokenizer() -> SubwordTokenizer:
    return SubwordTokenizer.train(TEXTS * 3, vocabulary_size=50)


@pytest.fixture(scope="module")
def token_ids(tokenizer: SubwordTokenizer) -> tf.RaggedTensor:
    return tokenizer.tokenize([*TEXTS, ""] * 20)


def changed(
    step: Transformation, token_ids: tf.RaggedTensor, num_batches: int = 1
) -> list[tuple[Rows, Rows]]:
    dataset = tf.data.Dataset.from_tensors((token_ids, token_ids)).repeat(num_batches).apply(step)
    return [(source.to_list(), target.to_list()) for source, target in dataset]


def test_the_text_stays_and_its_tokens_become_more(
    tokenizer: SubwordTokenizer, token_ids: tf.RaggedTensor
) -> None:
    [(source, target)] = changed(subword_dropout(tokenizer, tokenizer, 0.3), token_ids)
    texts = tokenizer.detokenize(token_ids).numpy().tolist()
    for rows in (source, target):
        assert tokenizer.detokenize(tf.ragged.constant(rows, dtype=tf.int32)).numpy().tolist() == texts
        assert sum(map(len, rows)) > 1.2 * int(tf.size(token_ids.flat_values))
    assert source != target
    assert len({tuple(row) for row in source}) > 5 * len(set(texts))


def test_a_side_without_a_tokenizer_is_left_alone(
    tokenizer: SubwordTokenizer, token_ids: tf.RaggedTensor
) -> None:
    [(source, target)] = changed(subword_dropout(None, tokenizer, 0.3), token_ids)
    assert source == token_ids.to_list()
    assert target != token_ids.to_list()


def test_no_dropout_changes_nothing(tokenizer: SubwordTokenizer, token_ids: tf.RaggedTensor) -> None:
    [(source, target)] = changed(subword_dropout(tokenizer, tokenizer, 0.0), token_ids)
    assert source == target == token_ids.to_list()


def test_a_row_that_would_become_too_long_stays(
    tokenizer: SubwordTokenizer, token_ids: tf.RaggedTensor
) -> None:
    whole = token_ids.to_list()
    limit = max(map(len, whole)) + 2
    [(source, _)] = changed(subword_dropout(tokenizer, tokenizer, 0.5, max_length=limit), token_ids)
    assert max(map(len, source)) <= limit
    [(unlimited, _)] = changed(subword_dropout(tokenizer, tokenizer, 0.5), token_ids)
    for row, before, free in zip(source, whole, unlimited, strict=True):
        assert row == (free if len(free) <= limit else before)
    assert max(map(len, unlimited)) > limit


def test_the_draws_are_those_of_the_seed_and_of_the_place_of_the_batch(
    tokenizer: SubwordTokenizer, token_ids: tf.RaggedTensor
) -> None:
    first, second = changed(subword_dropout(tokenizer, tokenizer, 0.3, seed=1), token_ids, 2)
    assert first != second
    assert [first, second] == changed(subword_dropout(tokenizer, tokenizer, 0.3, seed=1), token_ids, 2)
    assert first != changed(subword_dropout(tokenizer, tokenizer, 0.3, seed=2), token_ids)[0]


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
