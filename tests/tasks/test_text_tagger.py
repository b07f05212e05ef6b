"""Words get the tags that the model gives their first tokens, with their places in the text."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keras_transformer as kt
from helpers import talkative
from keras_transformer.tasks import TruncationWarning
from keras_transformer.text import CharacterTokenizer

SIZE = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16}
TAGS = ("O", "B-X", "I-X")
TEXTS = ["ab c (cab), b.", "c", "", "\u3000 ", "bb  cc a-b \u00e9t\u00e9 a a b"]


@pytest.fixture(scope="module")
def tagger() -> kt.TextTagger:
    model = talkative(kt.EncoderModel(8, 3, **SIZE), seed=3)
    return kt.TextTagger(model, CharacterTokenizer("abc."), TAGS, max_length=30)


def test_tags_are_those_of_the_first_tokens(tagger: kt.TextTagger) -> None:
    found = tagger.tag(TEXTS)
    assert len({tag for each in found for tag in each.tags}) > 1
    for text, each in zip(TEXTS, found, strict=True):
        assert "".join(each.tokens) == "".join(text.split())
        assert [text[start:end] for start, end in each.offsets] == [*each.tokens]
        if not each.tokens:
            continue
        # The ids of the words one after the other, and where they begin.
        pieces = tagger.tokenizer.tokenize([*each.tokens]).to_list()
        token_ids = [number for word in pieces for number in word] + [3]
        starts = np.cumsum([0, *map(len, pieces)])[:-1]
        logits = np.asarray(tagger.model(np.array([token_ids])))[0, starts]
        assert each.tags == tuple(TAGS[number] for number in logits.argmax(-1))
        wanted = np.exp(logits - logits.max(-1, keepdims=True))
        np.testing.assert_allclose(
            each.probabilities, (wanted / wanted.sum(-1, keepdims=True)).max(-1), atol=1e-6
        )


def test_a_batch_changes_no_answer(tagger: kt.TextTagger) -> None:
    for one, other in zip(tagger.tag(TEXTS * 2, batch_size=3), [*map(tagger.tag, TEXTS * 2)], strict=True):
        assert (one.tokens, one.tags, one.offsets) == (other.tokens, other.tags, other.offsets)
        np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-6)


def test_spans_have_characters() -> None:
    text = "Anna Smith, Oslo"
    places = ((0, 4), (5, 10), (10, 11), (12, 16))
    tags = ("B-PER", "I-PER", "O", "B-LOC")
    found = kt.tasks.Tagging(("Anna", "Smith", ",", "Oslo"), tags, np.array([0.9, 0.8, 1.0, 0.7]), places)
    assert [(text[start:end], label) for label, start, end, _ in found.spans] == [
        ("Anna Smith", "PER"),
        ("Oslo", "LOC"),
    ]
    assert [span.probability for span in found.spans] == [0.8, 0.7]


def test_separated_tokens_stay(tagger: kt.TextTagger) -> None:
    separated = tagger.with_changes(split_punctuation=False)
    assert separated.tag("a. (b c").tokens == ("a.", "(b", "c")
    assert tagger.tag("a. (b c").tokens == ("a", ".", "(", "b", "c")


def test_hostile_texts_have_an_answer(tagger: kt.TextTagger) -> None:
    texts = ["a " * 2**19, "a" * 2**20, b"\xff\xfe a", "\x00", "\ud800", "\U0001f600\u200d"]
    with pytest.warns(
        TruncationWarning, match=r"^2 of 6 were longer than the tagger's limits \(max_length=30\)"
    ):
        found = tagger.tag(texts)
    assert [len(each.tokens) for each in found] == [29, 1, 3, 0, 3, 2]
    assert tagger.tag([]) == []


def test_what_is_saved_answers_the_same(tagger: kt.TextTagger, tmp_path: Path) -> None:
    changed = tagger.with_changes(split_punctuation=False)
    changed.save(tmp_path / "t")
    loaded = kt.TextTagger.load(tmp_path / "t")
    assert (loaded.tags, loaded.max_length, loaded.split_punctuation) == (TAGS, 30, False)
    assert [each.tags for each in loaded.tag(TEXTS)] == [each.tags for each in changed.tag(TEXTS)]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tags": ["O", "X"]}, ValueError, r"for each tag at each position.*2 names, outputs.*, 3\)"),
        ({"tags": ["O", "O", "X"]}, ValueError, r"`tags` must hold different names"),
        ({"model": kt.EncoderModel(8, 3, pooling="mean", **SIZE)}, ValueError, r"of shape \(None, 3\)"),
        ({"tokenizer": None}, TypeError, "`tokenizer` must be a Tokenizer"),
    ],
)
def test_wrong_arguments(
    tagger: kt.TextTagger, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tagger.with_changes(**options)
