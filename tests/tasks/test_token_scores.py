"""A number for each token, and what else could have been there."""

from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from helpers import array, talkative
from keras_transformer.decoding import BeamSearch
from keras_transformer.text import CharacterTokenizer

SIZES: dict[str, Any] = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 16}
SOURCES, TARGETS = ["abc", "e", "", ""], ["wx?", "zy.w", "", "w"]


@pytest.fixture(scope="module")
def translator() -> kt.Translator:
    keras.utils.set_random_seed(0)
    source, target = CharacterTokenizer.train(["abcde .!\n"]), CharacterTokenizer("wxyz.")
    model = talkative(kt.Transformer(source.vocabulary_size, target.vocabulary_size, **SIZES), 23)
    search = BeamSearch(3, length_penalty=0.0, early_stopping="never")
    return kt.Translator(model, source, target, search=search, max_target_length=20)


def test_tokens_have_the_numbers_of_numpy(translator: kt.Translator) -> None:
    *scored, empty, unread = translator.score(SOURCES, TARGETS, tokens=True)
    assert translator.score(SOURCES, TARGETS)[0].tokens is None
    assert empty.tokens == ()
    assert [each.token for each in unread.tokens or ()] == ["w", "[END]"]
    for source, target, result in zip(SOURCES, TARGETS, scored, strict=False):
        target_ids = translator.target_tokenizer.padded_ids([target], 9).numpy()
        decoder = np.concatenate([[[2]], target_ids[:, :-1]], axis=1)
        inputs = {"encoder_token_ids": translator.token_ids([source]), "decoder_token_ids": decoder}
        [logits] = array(translator.model(inputs)).astype("float64")
        wanted = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        names = translator.target_tokenizer.tokens(np.arange(9)[None]).numpy()[0]
        assert result.tokens is not None
        for token, row, token_id in zip(result.tokens, wanted, target_ids[0], strict=True):
            assert token.token.encode() == names[token_id]
            assert token.score == pytest.approx(row[token_id], abs=1e-4)
            best = np.argsort(-row)[:5]
            assert [name.encode() for name, _ in token.alternatives] == [*names[best]]
            assert [each for _, each in token.alternatives] == pytest.approx([*row[best]], abs=1e-4)
        assert sum(token.score for token in result.tokens) == pytest.approx(result.score, abs=1e-4)
        assert len(result.tokens) == result.num_tokens


def test_those_of_hypotheses_add_up_to_their_scores(translator: kt.Translator) -> None:
    plain, num_ended = translator.n_best(["abc", "", "bad.", "e"]), 0
    detailed = translator.n_best(["abc", "", "bad.", "e"], tokens=True)
    for hypotheses, others in zip(detailed, plain, strict=True):
        assert [(each.text, each.score) for each in hypotheses] == [
            (each.text, each.score) for each in others
        ]
        for each in hypotheses:
            assert each.tokens is not None
            if len(each.tokens) == 20:
                continue  # cut off, so that its last token is another one here
            num_ended += bool(each.tokens)
            assert "".join(token.token for token in each.tokens[:-1]) == each.text
            assert sum(token.score for token in each.tokens) == pytest.approx(each.score, abs=1e-4)
    assert num_ended > 2


def test_what_is_given_has_no_token() -> None:
    keras.utils.set_random_seed(0)
    tokenizer = CharacterTokenizer("wxyz.")
    model = talkative(kt.CausalLM(tokenizer.vocabulary_size, **SIZES), 3)
    generator = kt.TextGenerator(model, tokenizer, max_length=9)
    [first, second] = generator.score(["wx", ""], ["wxyz", "xy"], tokens=True)
    assert [[each.token for each in result.tokens or ()] for result in (first, second)] == [
        ["y", "z", "[END]"],
        ["x", "y", "[END]"],
    ]
    assert sum(each.score for each in first.tokens or ()) == pytest.approx(first.score, abs=1e-4)
