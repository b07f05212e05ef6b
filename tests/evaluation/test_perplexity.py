"""Perplexity and bits for each character, beside the scores of the generator itself."""

import logging
import math

import keras
import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.evaluation import evaluate_texts

TEXTS = ["the sea is wide", "", "a dog", "the dog runs to the sea"]


@pytest.fixture(scope="module")
def generator() -> kt.TextGenerator:
    keras.utils.set_random_seed(1)
    tokenizer = kt.text.CharacterTokenizer.train(TEXTS)
    size = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 8, "dropout": 0.5}
    return kt.TextGenerator(kt.CausalLM(tokenizer.vocabulary_size, **size), tokenizer, max_length=24)


def test_it_is_what_the_generator_scores_each_text_with(generator: kt.TextGenerator) -> None:
    report = evaluate_texts(generator, TEXTS)
    plain = generator.with_changes(search=kt.decoding.GreedySearch(length_penalty=0.0))
    scores = plain.score([""] * len(TEXTS), TEXTS)
    total, num_tokens = -sum(score.score for score in scores), sum(score.num_tokens for score in scores)
    assert report.num_items == 4
    assert report["perplexity"] == pytest.approx(math.exp(total / num_tokens), rel=1e-5)
    num_characters = sum(map(len, TEXTS)) + len(TEXTS)
    assert report["bits_per_character"] == pytest.approx(total / math.log(2) / num_characters, rel=1e-5)
    # Each character is a token.
    assert report["bits_per_character"] == pytest.approx(math.log2(report["perplexity"]), rel=1e-5)


def test_long_texts_are_left_out_or_packed(
    generator: kt.TextGenerator, caplog: pytest.LogCaptureFixture
) -> None:
    long = "the sea is wide " * 4
    with caplog.at_level(logging.WARNING):
        report = evaluate_texts(generator, [*TEXTS, long])
    assert report == evaluate_texts(generator, TEXTS)
    assert "1 of 5 texts are longer than 24 tokens, and left out" in caplog.text
    assert evaluate_texts(generator, [*TEXTS, long], packed=True).num_items == 5
    with pytest.raises(InputError, match="Every text is too long"):
        evaluate_texts(generator, [long])
    with pytest.raises(InputError, match="at least one text"):
        evaluate_texts(generator, [])
