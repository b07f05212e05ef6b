"""A long text is translated in pieces, and its neighbors as alone."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from helpers import talkative
from keras_transformer.decoding import BeamSearch, SampleSearch
from keras_transformer.tasks import Translation, TruncationWarning
from keras_transformer.text import CharacterTokenizer

TEXT = "\n Abc de ab. Abcd!\n\n  Bcd ab cde de. abc abc abc abc. "
PIECES = ["", "Abc de ab.", "Abcd!", "Bcd ab cde", "de. abc abc", "abc abc.", ""]
SEPARATORS = ["\n ", " ", "\n\n  ", " ", " ", " ", ""]
SHORT = ["abc", "", "Abc de ab.", " \n", "e"]
CUT = "ignore:.*longer than the translator's limits"  # outputs of a random model reach their limit

pytestmark = pytest.mark.filterwarnings(CUT)


@pytest.fixture(scope="module")
def translator() -> kt.Translator:
    keras.utils.set_random_seed(0)
    source, target = CharacterTokenizer.train(["ABCDEabcde .!\n"]), CharacterTokenizer("wxyz.")
    sizes = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 16}
    model = kt.Transformer(source.vocabulary_size, target.vocabulary_size, **sizes)
    talkative(model, 20)
    return kt.Translator(
        model, source, target, search=BeamSearch(3), max_source_length=12, max_target_length=8
    )


def close(actual: list[Translation], wanted: list[Translation]) -> None:
    assert [each.text for each in actual] == [each.text for each in wanted]
    assert [each.score for each in actual] == pytest.approx([each.score for each in wanted], abs=1e-4)


def test_a_long_text_is_the_join_of_its_pieces(translator: kt.Translator) -> None:
    alone = translator.translate_with_scores(PIECES)
    assert len({each.text for each in alone}) > 3
    joined = "".join(each.text + separator for each, separator in zip(alone, SEPARATORS, strict=True))
    [answer] = translator.translate_with_scores([TEXT])
    assert answer.text == translator.translate(TEXT) == joined
    weights = [len(row[row != 0]) for row in np.asarray(_best_ids(translator, PIECES))]
    scores = np.array([each.score for each in alone])
    weights = np.where([bool(piece) for piece in PIECES], weights, 0)
    assert answer.score == pytest.approx((scores * weights).sum() / weights.sum(), abs=1e-4)


def _best_ids(translator: kt.Translator, texts: list[str]) -> Any:
    return translator.generate(translator.token_ids(texts)).token_ids[:, 0]


@pytest.mark.parametrize(
    "batch_size", [pytest.param(1, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow), 64]
)
def test_texts_of_all_lengths_are_translated_as_alone(translator: kt.Translator, batch_size: int) -> None:
    texts = [*SHORT, TEXT, TEXT * 2, "abcd " * 9, "abcde" * 9, " " * 99]
    alone = [translator.translate_with_scores([text])[0] for text in texts]
    close(translator.translate_with_scores(texts, batch_size=batch_size), alone)
    whole = translator.with_changes(split_texts="none")
    close(alone[: len(SHORT)], whole.translate_with_scores(SHORT))
    assert alone[-1] == Translation("", 0.0)


def test_all_texts_may_be_split(translator: kt.Translator) -> None:
    splitting = translator.with_changes(split_texts="all", max_source_length=40)
    sentences = ["Ab.", "Cd!", "E abc."]
    assert splitting.translate([" ".join(sentences), "", "\n"]) == [
        " ".join(splitting.translate(sentences)),
        "",
        "",
    ]
    assert splitting.translate("\n\nAb.\n") == f"\n\n{splitting.translate('Ab.')}\n"


@pytest.mark.slow
def test_a_document_has_more_pieces_than_a_batch(translator: kt.Translator) -> None:
    sentences = ["Abc de ab.", "Abcd!", "Bcd ab cde.", "E abc!"] * 50
    answers = translator.translate(sentences)
    assert translator.translate("\n".join(sentences)) == "\n".join(answers)


@pytest.mark.filterwarnings("error::keras_transformer.tasks.TruncationWarning")
def test_what_is_cut_is_told_and_nothing_else(translator: kt.Translator) -> None:
    roomy = translator.with_changes(max_target_length=40)
    assert roomy.search.constraints.max_length_ratio is None
    ended = kt.decoding.Constraints(force_end=True)
    ending = roomy.with_changes(search=BeamSearch(2, constraints=ended))
    ending.translate([TEXT, *SHORT])
    for text in ("Ab. " + "a" * 12, "ab " * 9 + "a" * 99):
        with pytest.warns(TruncationWarning, match=r"^1 of 2 were longer"):
            ending.translate([text, "a"])
    # The output of a piece that does not end.
    with pytest.warns(TruncationWarning, match=r"^1 of 2 were longer"):
        translator.translate([TEXT, "abc"])
    for ask in (ending.n_best, ending.align, lambda texts: ending.score(texts, ["z"])):
        with pytest.warns(TruncationWarning, match=r"^1 of 1 were longer"):
            ask([TEXT])


@pytest.mark.slow
def test_the_option_says_what_happens(translator: kt.Translator, tmp_path: Path) -> None:
    first = translator.translate(PIECES[1])
    cutting = translator.with_changes(split_texts="none")
    start = "Abc de ab. Abcd!"
    assert cutting.translate(start) != translator.translate(start)
    assert cutting.translate(start) == cutting.translate(start[:11])
    cutting.save(tmp_path)
    loaded = kt.Translator.load(tmp_path)
    assert loaded.split_texts == "none"
    loaded.split_texts = "long"
    assert loaded.translate(start).startswith(first)
    # A file from before there was the option.
    options = tmp_path / "translator.json"
    options.write_text(options.read_text().replace('  "split_texts": "none",\n', ""))
    (tmp_path / "SHA256SUMS").unlink(missing_ok=True)
    assert kt.Translator.load(tmp_path).split_texts == "long"
    with pytest.raises(
        ValueError, match=r"`split_texts` must be one of 'long', 'all', 'none'\. Received: .*'words'"
    ):
        translator.with_changes(split_texts="words")


@pytest.mark.slow
def test_pieces_are_sampled_as_alone(translator: kt.Translator) -> None:
    sampling = translator.with_changes(search=SampleSearch(temperature=2.0, seed=3))
    answer = sampling.translate(TEXT)
    assert sampling.translate([TEXT, *SHORT])[0] == answer
    assert answer.split() != translator.translate(TEXT).split()


@pytest.mark.slow
def test_attention_maps_are_those_of_what_was_read(translator: kt.Translator) -> None:
    alignment, _ = translator.attention_maps(TEXT)
    assert len(alignment.source_tokens) == 12
    assert alignment.text == translator.n_best([TEXT])[0][0].text
