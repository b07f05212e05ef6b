"""Batches of texts: every token once, in rows of like length, the same in every process."""

import logging
from collections import Counter
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.data import EncodedTexts, text_dataset
from keras_transformer.errors import InputError

TOKENIZER = kt.text.CharacterTokenizer(list("ab"))
TEXTS = ["ab" * (number % 9 + 1) + "a" * (number % 2) for number in range(50)]


def batches(*arguments: Any, **options: Any) -> list[tuple[list[list[int]], list[list[int]]]]:
    dataset = text_dataset(*arguments, **options)
    found = [(inputs.tolist(), labels.tolist()) for inputs, labels in dataset.as_numpy_iterator()]
    assert len(found) == len(dataset)
    return found


def rows(found: Any) -> Counter[tuple[tuple[int, ...], tuple[int, ...]]]:
    return Counter(
        (tuple(filter(None, read)), tuple(filter(None, predicted)))
        for inputs, labels in found
        for read, predicted in zip(inputs, labels, strict=True)
    )


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("pad_to_bucket_boundary", [False, True])
def test_every_text_is_a_row_with_its_start_and_its_end(shuffle: bool, pad_to_bucket_boundary: bool) -> None:
    options = {"shuffle": shuffle, "pad_to_bucket_boundary": pad_to_bucket_boundary}
    found = batches(TEXTS, TOKENIZER, tokens_per_batch=64, **options)
    ids = [tuple(row) for row in TOKENIZER.tokenize(TEXTS).to_list()]
    assert rows(found) == Counter(((2, *row), (*row, 3)) for row in ids)
    for inputs, labels in found:
        assert np.shape(inputs) == np.shape(labels)
        assert np.size(inputs) <= 64
        # Labels are the inputs, one position further on.
        after, before = np.array(inputs)[:, 1:], np.array(labels)[:, :-1]
        assert (after == before)[after > 0].all()


def test_epochs_follow_from_the_seed_and_their_number() -> None:
    options = {"tokens_per_batch": 40}
    dataset = text_dataset(TEXTS, TOKENIZER, **options)
    first, second = ([inputs.tolist() for inputs, _ in dataset.as_numpy_iterator()] for _ in range(2))
    again = [inputs for inputs, _ in batches(TEXTS, TOKENIZER, first_epoch=1, **options)]
    assert first != second == again
    assert first != [inputs for inputs, _ in batches(TEXTS, TOKENIZER, seed=1, **options)]
    encoded = EncodedTexts.encode(TEXTS, TOKENIZER)
    assert first == [inputs for inputs, _ in batches(encoded, **options)]


@pytest.mark.parametrize("length", [2, 7, 40, 2000])
def test_packed_rows_hold_every_text_once_and_in_order(length: int) -> None:
    encoded = EncodedTexts.encode(TEXTS, TOKENIZER, packed=True, max_length=length)
    ids = TOKENIZER.tokenize(TEXTS).to_list()
    wanted = [each for text in ids for each in (2, *text)], [each for text in ids for each in (*text, 3)]
    for side, flat in zip((encoded.inputs, encoded.labels), wanted, strict=True):
        assert side.to_list() == [flat[start : start + length] for start in range(0, len(flat), length)]
    found = batches(encoded, shuffle=False, tokens_per_batch=max(80, length))
    assert rows(found) == rows([(encoded.inputs.to_list(), encoded.labels.to_list())])


def test_longer_texts_are_left_out_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        encoded = EncodedTexts.encode(["ab", "abab", "a"], TOKENIZER, max_length=3)
    assert (len(encoded), encoded.num_dropped, encoded.lengths().tolist()) == (2, 1, [[3], [2]])
    assert "Dropped 1 of 3 texts (33.3 %) as too long: over 3 tokens" in caplog.text
    with pytest.raises(InputError, match=r"Every text is too long\. Received: 1 texts over 3 tokens"):
        EncodedTexts.encode(["abab"], TOKENIZER, max_length=3)
    assert len(EncodedTexts.encode(["abab"], TOKENIZER, max_length=3, packed=True)) == 2


@pytest.mark.parametrize(
    ("texts", "options", "error", "message"),
    [
        ([], {}, InputError, "at least one text. Received: 0"),
        ("ab", {}, TypeError, "texts"),
        ([3], {}, TypeError, "texts"),
        (["ab"], {"tokenizer": None}, TypeError, "tokenizer=None"),
        (["ab"], {"max_length": 1}, ValueError, "max_length=1"),
        (["ab"], {"tokens_per_batch": 2}, ValueError, "tokens_per_batch=2"),
        (["ab"], {"packed": "yes"}, TypeError, "packed='yes'"),
    ],
)
def test_what_is_refused(texts: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        text_dataset(texts, **{"tokenizer": TOKENIZER, **options})


def test_a_model_fits_in_one_call() -> None:
    keras.utils.set_random_seed(0)
    size = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 8}
    model = kt.CausalLM(TOKENIZER.vocabulary_size, **size)
    kt.training.compile_model(model, 1e-2)
    dataset = text_dataset(TEXTS, TOKENIZER, tokens_per_batch=200)
    losses = model.fit(dataset, epochs=2, shuffle=False, verbose=0).history["loss"]
    assert losses[1] < losses[0]
