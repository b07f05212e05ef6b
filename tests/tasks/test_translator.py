"""Strings in, strings out: order, neighbours, and texts of any kind."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.decoding import BeamSearch, Constraints, GreedySearch, SampleSearch
from keras_transformer.tasks import Translation, TruncationWarning
from keras_transformer.text import CharacterTokenizer, Tokenizer

PLAIN = ["abc", "a", "cab e", "bb"]
STRANGE = {
    "empty": "",
    "spaces": "   ",
    "NUL": "a\x00b",
    "emoji": "\U0001f600\U0001f469\u200d\U0001f680",
    "right to left": "שלום عالم",
    "unknown": "漢字☃",
    "half a surrogate": "\ud800",
    "a surrogate inside": "ab\udfffc",
    "long": "abc" * 33_334,
    "control": "\u202e\u0000\ufeff\n\r\t",
    "special": "[START][END][PAD]",
}


@pytest.fixture(scope="module")
def source_tokenizer() -> Tokenizer:
    return CharacterTokenizer("abcde")  # 9 ids


@pytest.fixture(scope="module")
def target_tokenizer() -> Tokenizer:
    return CharacterTokenizer("wxyz")  # 8 ids


@pytest.fixture(scope="module")
def translator(transformer: Any, source_tokenizer: Any, target_tokenizer: Any) -> kt.Translator:
    return kt.Translator(
        transformer,
        source_tokenizer,
        target_tokenizer,
        search=BeamSearch(3),
        max_source_length=40,
        max_target_length=6,
    )


SIZES: dict[str, Any] = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16}


@pytest.mark.slow
def test_learned_positions_are_the_limits(source_tokenizer: Any, target_tokenizer: Any) -> None:
    """A long text must not reach a position that does not exist, nor spoil its neighbours."""
    keras.utils.set_random_seed(0)
    model = kt.Transformer(9, 8, positions="learned", max_length=10, **SIZES)
    translator = kt.Translator(model, source_tokenizer, target_tokenizer, search=BeamSearch(2))
    assert (translator.max_source_length, translator.max_target_length) == (10, 10)
    alone = translator.translate_with_scores(["abc"])[0]
    with pytest.warns(TruncationWarning):
        together = translator.translate_with_scores(["abc", "abcde" * 9])
    assert together[0].text == alone.text
    assert together[0].score == pytest.approx(alone.score, abs=1e-5)
    assert all(answer.score > -1e3 for answer in together)


def test_limits_that_are_assigned_are_those_of_the_model(
    source_tokenizer: Any, target_tokenizer: Any
) -> None:
    """At a position that the model does not have, TensorFlow reads NaN and says nothing."""
    model = kt.Transformer(9, 8, positions="learned", max_length=10, **SIZES)
    translator = kt.Translator(model, source_tokenizer, target_tokenizer)
    translator.max_source_length, translator.max_target_length = 99, 7
    assert translator.limits == {"max_source_length": 10, "max_target_length": 7}
    for name in translator.limit_names:
        with pytest.raises(ValueError, match=rf"`{name}` must be .*2.* Received: {name}=1"):
            setattr(translator, name, 1)
    fewer: dict[str, Any] = {"positions": "learned", "share_positions": False, "max_length": 10, **SIZES}
    models = [kt.Transformer(9, 8, max_source_positions=size, **fewer) for size in (6, 5)]
    for several, longest in ((models[0], 6), (kt.models.Ensemble(models), 5)):
        fitted = kt.Translator(several, source_tokenizer, target_tokenizer)
        assert (fitted.max_source_length, fitted.max_target_length) == (longest, 10)
    with pytest.raises(ValueError, match=r"`split_texts` must be .* Received: split_texts='some'"):
        translator.split_texts = "some"  # type: ignore[assignment]
    language_model = kt.CausalLM(9, positions="learned", max_length=10, **SIZES)
    encoder = kt.EncoderModel(9, 2, pooling="first", positions="learned", max_length=10, **SIZES)
    for task in (
        kt.TextGenerator(language_model, source_tokenizer, max_length=5),
        kt.TextClassifier(encoder, source_tokenizer, ["a", "b"], max_length=5),
    ):
        task.max_length = 99
        assert task.limits == {"max_length": 10}
        with pytest.raises(TypeError, match="`max_length` must be an integer"):
            task.max_length = 5.5  # type: ignore[assignment]


class LetterModel:
    """Stands for a model: only its vocabularies are read."""

    def __init__(self, source_size: int, target_size: int) -> None:
        self.source_embedding = type("Embedding", (), {"vocabulary_size": source_size})
        self.variables: list[Any] = []
        self.target_embedding = type("Embedding", (), {"vocabulary_size": target_size})


def assert_close(answers: Sequence[Translation], expected: Sequence[Translation]) -> None:
    assert [answer.text for answer in answers] == [answer.text for answer in expected]
    scores = [answer.score for answer in expected]
    assert [answer.score for answer in answers] == pytest.approx(scores, rel=1e-4, abs=1e-5)


def test_translate_gives_texts_of_the_target(translator: kt.Translator) -> None:
    answers = translator.translate(PLAIN)
    assert len(set(answers)) > 1, "answers should differ"
    assert set("".join(answers)) <= set("wxyz")
    assert all(len(answer) <= 6 for answer in answers)


def test_scores_belong_to_the_texts(translator: kt.Translator) -> None:
    answers = translator.translate_with_scores(PLAIN)
    assert [answer.text for answer in answers] == translator.translate(PLAIN)
    assert all(answer.score < 0 for answer in answers)


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_the_order_is_that_of_the_sources(translator: kt.Translator, batch_size: int) -> None:
    texts = PLAIN + [text[::-1] for text in PLAIN] + ["", "edcba" * 3]
    expected = [translator.translate_with_scores([text])[0] for text in texts]
    assert_close(translator.translate_with_scores(iter(texts), batch_size=batch_size), expected)


def test_strange_texts_get_an_answer_and_change_no_neighbour(translator: kt.Translator) -> None:
    alone = translator.translate_with_scores(PLAIN)
    with pytest.warns(TruncationWarning, match=r"1 of 15 were longer"):
        together = translator.translate_with_scores([*STRANGE.values(), *PLAIN])
    assert_close(together[len(STRANGE) :], alone)
    for answer in together:
        assert set(answer.text) <= set("wxyz")
        answer.text.encode("utf-8")


@pytest.mark.filterwarnings("ignore:.*longer than the translator's limits")
@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_text_alone_gets_an_answer(translator: kt.Translator, name: str) -> None:
    [answer] = translator.translate([STRANGE[name]])
    assert set(answer) <= set("wxyz")


def test_an_empty_text_has_an_empty_answer(translator: kt.Translator) -> None:
    assert translator.translate_with_scores(["", "a"])[0] == Translation("", 0.0)
    assert translator.n_best(["a", ""])[1] == [Translation("", 0.0)]
    assert translator.translate([]) == []


# What Python's own Unicode tables call white space, and what has no width.
WHITE_SPACE = [chr(code) for code in range(0x110000) if chr(code).isspace()]
BLANK = [
    *WHITE_SPACE,
    "".join(WHITE_SPACE),
    "\u200b",
    "\ufeff",
    "\0",
    "\x07",
    "\u202e",
    "\u180e",
    "\u2060",
    "\u200d",
    "\r\n \u3000" * 9,
]


def test_white_space_alone_is_as_empty_as_the_empty_text(translator: kt.Translator) -> None:
    # Data of pairs leave such a side out, so that no model has learned what to say to it.
    texts = [*BLANK, "ab"]
    answers, nothing = translator.translate_with_scores(texts), Translation("", 0.0)
    assert answers[:-1] == [nothing] * len(BLANK)
    assert answers[-1] != nothing
    assert translator.n_best(BLANK) == [[nothing]] * len(BLANK)
    assert not any([*translator.stream(text)] for text in BLANK[::9])
    assert {each.score for each in translator.score(BLANK, BLANK[::-1])} == {0.0}
    assert {(each.text, each.source_tokens) for each in translator.align(BLANK)} == {("", ())}


def test_what_has_more_than_white_space_is_read(translator: kt.Translator) -> None:
    texts = [".", " a", "\u200ba\u200b", "\n\u2028b"]
    assert Translation("", 0.0) not in translator.translate_with_scores(texts)


def test_what_follows_the_longest_source_is_cut_off(translator: kt.Translator) -> None:
    text = "abcde" * 7 + "abcd"  # 39 characters and the end
    with pytest.warns(TruncationWarning, match=r"^2 of 3 were .* limits \(max_source_length=40\)") as caught:
        answers = translator.translate_with_scores([text + "eee", text, text + "e"], batch_size=1)
    files = [warning.filename for warning in caught if warning.category is TruncationWarning]
    assert files == [__file__]
    assert_close(answers, translator.translate_with_scores([text] * 3))


def test_hypotheses_are_those_of_the_search(translator: kt.Translator) -> None:
    answers = translator.n_best([*PLAIN, ""])
    assert [len(hypotheses) for hypotheses in answers] == [3, 3, 3, 3, 1]
    assert_close([hypotheses[0] for hypotheses in answers], translator.translate_with_scores([*PLAIN, ""]))
    scores = keras.ops.convert_to_numpy(translator.generate([[4, 3]]).scores[0])  # "a" and the end
    assert [hypothesis.score for hypothesis in answers[1]] == pytest.approx(list(scores), rel=1e-4)
    assert [len(hypotheses) for hypotheses in translator.n_best(iter(PLAIN), num=2)] == [2] * 4


@pytest.mark.parametrize("num", [0, 4])
def test_more_hypotheses_than_the_search_keeps_are_refused(translator: kt.Translator, num: int) -> None:
    with pytest.raises(ValueError, match=rf"between 1 and the 3 hypotheses .* Received: num={num}\."):
        translator.n_best(PLAIN, num=num)


def test_own_answers_score_as_they_did(translator: kt.Translator) -> None:
    # Only answers that ended: a target that is scored always ends.
    answers = list(zip(PLAIN, translator.translate_with_scores(PLAIN), strict=True))
    ended = [(text, answer) for text, answer in answers if len(answer.text) < 5]
    scores = translator.score([text for text, _ in ended], (answer.text for _, answer in ended))
    assert ended
    assert [score.score for score in scores] == pytest.approx([a.score for _, a in ended], abs=1e-4)
    assert [score.num_tokens for score in scores] == [len(answer.text) + 1 for _, answer in ended]


@pytest.mark.slow
def test_first_tokens_are_part_of_a_scored_target(
    transformer: Any, source_tokenizer: Any, target_tokenizer: Any
) -> None:
    rules = Constraints(first_token_ids=(6,), max_length_ratio=1.0)  # so that outputs end
    search = GreedySearch(length_penalty=1.0, constraints=rules)
    sides = source_tokenizer, target_tokenizer
    translator = kt.Translator(transformer, *sides, search=search, max_target_length=9)
    answers = translator.translate_with_scores(PLAIN)
    first = target_tokenizer.detokenize([[6]]).numpy()[0].decode()
    assert all(answer.text.startswith(first) for answer in answers)
    ended = [(text, answer) for text, answer in zip(PLAIN, answers, strict=True) if len(answer.text) < 8]
    assert ended
    scores = translator.score(
        *zip(*((text, answer.text.removeprefix(first)) for text, answer in ended), strict=True)
    )
    assert [score.score for score in scores] == pytest.approx([a.score for _, a in ended], abs=1e-4)
    assert [score.num_tokens for score in scores] == [len(answer.text) for _, answer in ended]


def test_pairs_do_not_depend_on_their_neighbors(translator: kt.Translator) -> None:
    sources, targets = ["abc", "", "a", "", "edcba"], ["wxyz", "", "", "zz", "w"]
    together = translator.score(sources, targets, batch_size=2)
    alone = [translator.score([s], [t])[0] for s, t in zip(sources, targets, strict=True)]
    assert [score.num_tokens for score in together] == [5, 0, 1, 3, 2]
    assert [score.score for score in together] == pytest.approx([score.score for score in alone], abs=1e-4)
    assert together[1].score == 0.0
    assert all(score.score < 0 for score in (together[0], together[2], together[3]))


def test_a_target_for_each_source_is_needed(translator: kt.Translator) -> None:
    with pytest.raises(ValueError, match=r"Received: 1 targets, 2 sources\."):
        translator.score(["a", "b"], ["w"])


def test_alignments_are_cut_to_the_real_lengths(translator: kt.Translator) -> None:
    texts = ["abc", "", "edcba"]
    answers = translator.align(texts)
    assert_close(answers, translator.translate_with_scores(texts))
    assert answers[0].source_tokens == ("a", "b", "c", "[END]")
    assert answers[1].attention.shape == (0, 0)
    for answer in (answers[0], answers[2]):
        assert "".join(answer.output_tokens).removesuffix("[END]") == answer.text
        assert answer.attention.shape == (len(answer.output_tokens), len(answer.source_tokens))
        assert answer.attention.sum(-1) == pytest.approx([1.0] * len(answer.output_tokens), abs=1e-5)


@pytest.mark.slow
def test_a_search_that_is_changed_takes_effect(source_tokenizer: Any, target_tokenizer: Any) -> None:
    model = kt.Transformer(9, 8, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8)
    translator = kt.Translator(
        model, source_tokenizer, target_tokenizer, search=GreedySearch(), max_target_length=6
    )
    first = translator.translate_with_scores(PLAIN)
    translator.search = BeamSearch(3)
    assert len(translator.n_best(PLAIN)[0]) == 3
    translator.search = BeamSearch(3, num_hypotheses=2)
    assert len(translator.n_best(PLAIN)[0]) == 2
    translator.search, translator.max_target_length = GreedySearch(), 3
    assert max(len(text) for text in translator.translate(PLAIN)) <= 3
    translator.max_target_length = 6
    assert_close(translator.translate_with_scores(PLAIN), first)


def test_the_search_is_a_beam_of_four_by_default(source_tokenizer: Any) -> None:
    translator = kt.Translator(LetterModel(9, 9), source_tokenizer, source_tokenizer)
    assert isinstance(translator.search, BeamSearch)
    assert translator.search.beam_size == 4


def test_a_single_string_has_a_single_output(translator: kt.Translator) -> None:
    assert translator.translate("abc") == translator.translate(["abc"])[0]


@pytest.mark.parametrize("wrong", [None, 3])
def test_what_is_no_string_is_refused(translator: kt.Translator, wrong: Any) -> None:
    with pytest.raises(TypeError, match=rf"must hold strings\. Received: texts\[1\]={wrong!r}\."):
        translator.translate(["a", wrong])


def test_a_wrong_batch_size_is_refused(translator: kt.Translator) -> None:
    with pytest.raises(ValueError, match=r"`batch_size` must be above zero\. Received: batch_size=0\."):
        translator.translate(["a"], batch_size=0)


@pytest.mark.parametrize(("side", "sizes"), [("source", (7, 9)), ("target", (9, 7))])
def test_a_vocabulary_that_does_not_fit_is_refused(
    source_tokenizer: Any, side: str, sizes: tuple[int, int]
) -> None:
    message = rf"`{side}_tokenizer` must have .*vocabulary_size=9, model {side} vocabulary size=7\."
    with pytest.raises(ValueError, match=message):
        kt.Translator(LetterModel(*sizes), source_tokenizer, source_tokenizer)


def test_models_that_do_not_read_what_the_source_gives_are_refused(source_tokenizer: Any) -> None:
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 11}
    frames = kt.Transformer(None, 9, encoder_feature_dim=3, name="frames", **sizes)
    for model in (frames, kt.CausalLM(9, name="alone", **sizes)):
        message = f"`model` must write token ids and read .*Received: {type(model).__name__} '{model.name}'."
        with pytest.raises(ValueError, match=message):
            kt.Translator(model, source_tokenizer, source_tokenizer)


@pytest.mark.parametrize("name", ["max_source_length", "max_target_length"])
def test_limits_without_room_are_refused(source_tokenizer: Any, name: str) -> None:
    limits: dict[str, Any] = {name: 1}
    with pytest.raises(ValueError, match=rf"`{name}` must be at least 2.*{name}=1\."):
        kt.Translator(LetterModel(9, 9), source_tokenizer, source_tokenizer, **limits)


IN_A_NEW_PROCESS = """
import json, sys
import keras_transformer as kt
translator = kt.Translator.load(sys.argv[1])
answers = translator.translate_with_scores(json.loads(sys.argv[2]))
print(json.dumps([[answer.text, answer.score] for answer in answers]))
"""


@pytest.mark.slow
def test_a_new_process_gives_the_same_answers(translator: kt.Translator, tmp_path: Path) -> None:
    translator.save(tmp_path / "model")
    (tmp_path / "model").rename(tmp_path / "moved")
    finished = subprocess.run(
        [sys.executable, "-c", IN_A_NEW_PROCESS, str(tmp_path / "moved"), json.dumps(PLAIN)],
        env={**os.environ, "PYTHONPATH": str(Path(kt.__path__[0]).parent)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    answers = [Translation(text, score) for text, score in json.loads(finished.stdout)]
    assert_close(answers, translator.translate_with_scores(PLAIN))


def test_no_row_at_all(translator: kt.Translator) -> None:
    token_ids, scores = translator.generate(np.zeros((0, 3), "int32"))
    assert (tuple(token_ids.shape), tuple(scores.shape)) == ((0, 3, 6), (0, 3))


@pytest.mark.slow
def test_samples_do_not_depend_on_the_batches(
    transformer: Any, source_tokenizer: Any, target_tokenizer: Any
) -> None:
    search = SampleSearch(temperature=2.0, seed=7)
    sampling = kt.Translator(
        transformer, source_tokenizer, target_tokenizer, search=search, max_target_length=6
    )
    texts = ["abc", "a", "abc", "abc", "cab e", "abc"]
    answers = sampling.translate(texts)
    assert len(set(answers)) > 2, "one source should have several answers"
    assert sampling.translate(texts, batch_size=2) == answers
    assert sampling.translate(texts, batch_size=1) == answers


def test_a_pair_that_is_cut_on_both_sides_is_one(translator: kt.Translator) -> None:
    with pytest.warns(TruncationWarning, match=r"1 of 2 were longer"):
        translator.score(["abc" * 99, "a"], ["wx" * 99, "w"])


@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_sources_are_ended_cut_and_padded(transformer: Any, target_tokenizer: Any, length: int) -> None:
    source_tokenizer = CharacterTokenizer("abcde")
    translator = kt.Translator(transformer, source_tokenizer, target_tokenizer, max_source_length=length)
    rows = {
        2: [[4, 3], [4, 3], [3, 0]],
        3: [[4, 5, 3], [4, 3, 0], [3, 0, 0]],
        4: [[4, 5, 4, 3], [4, 3, 0, 0], [3, 0, 0, 0]],
        5: [[4, 5, 4, 3], [4, 3, 0, 0], [3, 0, 0, 0]],
    }
    np.testing.assert_array_equal(translator.token_ids(["aba", "a", ""]), rows[length])


@pytest.mark.slow
def test_a_quantized_model_answers_with_its_own_weights(source_tokenizer: Any, target_tokenizer: Any) -> None:
    """What was compiled for floats is not used again."""
    model = kt.Transformer(9, 8, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16)
    rng = np.random.default_rng(23)
    for weight in model.trainable_variables:
        weight.assign(rng.normal(size=weight.shape))
    arguments = {"search": GreedySearch(), "max_target_length": 6}
    translator = kt.Translator(model, source_tokenizer, target_tokenizer, **arguments)
    floats = [answer.score for answer in translator.translate_with_scores(PLAIN)]
    streams = ["".join(translator.stream(text)) for text in PLAIN]
    assert streams == translator.translate(PLAIN)
    model.quantize("int8")
    expected = kt.Translator(model, source_tokenizer, target_tokenizer, **arguments)
    answers = translator.translate_with_scores(PLAIN)
    assert answers == expected.translate_with_scores(PLAIN)
    assert [answer.score for answer in answers] != floats
    assert ["".join(translator.stream(text)) for text in PLAIN] == [answer.text for answer in answers]
