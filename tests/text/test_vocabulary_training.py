import pytest
import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.text.lookup_tokenizer import text_batches, train_vocabulary


def train(texts: list[str], max_vocabulary_size: int | None = None) -> list[str]:
    return train_vocabulary(texts, tf.strings.split, lambda piece: piece != "bad", max_vocabulary_size)


def test_most_frequent_comes_first_and_ties_are_sorted() -> None:
    assert train(["c b", "a b", "bad é"]) == ["b", "a", "c", "é"]


def test_the_order_of_the_corpus_does_not_matter() -> None:
    texts = ["c b", "a b", "d"]
    assert train(texts) == train(texts[::-1])


def test_the_limit_counts_special_tokens() -> None:
    assert train(["c b", "a b"], 6) == ["b", "a"]


@pytest.mark.parametrize("size", [4, 0, -1])
def test_a_limit_without_room_is_refused(size: int) -> None:
    message = rf"must exceed the 4 special tokens\. Received: max_vocabulary_size={size}\."
    with pytest.raises(ValueError, match=message):
        train(["a"], size)


@pytest.mark.parametrize("texts", [[], [""], ["bad"]])
def test_a_corpus_without_text_is_named(texts: list[str]) -> None:
    with pytest.raises(InputError, match=r"the corpus holds no text\. Received: 0 pieces\."):
        train(texts)


def test_batches_hold_every_text_once() -> None:
    texts = [str(number) for number in range(2500)]
    batches = list(text_batches(iter(texts)))
    assert [len(batch) for batch in batches] == [1024, 1024, 452]
    assert [row.decode() for batch in batches for row in batch.numpy()] == texts


def test_a_lone_surrogate_is_no_error() -> None:
    (batch,) = text_batches(["a\ud800"])
    assert batch.numpy().tolist() == [b"a\xed\xa0\x80"]


def test_one_string_is_no_corpus() -> None:
    with pytest.raises(TypeError, match=r"`texts` must be several strings\. Received: 'abc'\."):
        next(text_batches("abc"))
