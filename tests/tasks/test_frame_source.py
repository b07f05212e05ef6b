"""Frames in, strings out: whatever is padding, hidden or behind a mask changes nothing."""

import pickle
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.data import FrameNormalizer
from keras_transformer.decoding import BeamSearch, GreedySearch
from keras_transformer.tasks import TruncationWarning
from keras_transformer.text import CharacterTokenizer

TOKENIZER = CharacterTokenizer("wxyz")  # 8 ids
LENGTHS = [7, 2, 5, 1, 12, 7]
SIZES: dict[str, Any] = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 16}


def windows() -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.normal([5, 500, -1], [1, 50, 3], (length, 3)).astype("float32") for length in LENGTHS]


def make_model(**options: Any) -> kt.Transformer:
    keras.utils.set_random_seed(1)
    model = kt.Transformer(None, 8, encoder_feature_dim=3, **{**SIZES, **options})
    # Weights as large as those of a trained model, so that outputs depend on the source.
    for weight in model.weights:
        if len(weight.shape) > 1:
            weight.assign(2.0 * weight.value)
    return model


def make_translator(**options: Any) -> kt.Translator:
    normalizer = FrameNormalizer.adapt(windows())
    limits = {"max_source_length": 12, "max_target_length": 6}
    return kt.Translator(make_model(**options), normalizer, TOKENIZER, search=BeamSearch(2), **limits)


@pytest.fixture(scope="module")
def translator() -> kt.Translator:
    return make_translator()


@pytest.fixture(scope="module")
def answers(translator: kt.Translator) -> list[Any]:
    return [translator.translate_with_scores([window])[0] for window in windows()]


def assert_equal(found: list[Any], wanted: list[Any]) -> None:
    assert [each.text for each in found] == [each.text for each in wanted]
    np.testing.assert_allclose([each.score for each in found], [each.score for each in wanted], atol=1e-4)


def test_outputs_depend_on_the_source(answers: list[Any]) -> None:
    assert len({answer.text for answer in answers}) > 1
    assert len({round(answer.score, 3) for answer in answers}) == len(answers)


@pytest.mark.slow
def test_it_answers_as_a_search_over_normalized_frames_does(
    translator: kt.Translator, answers: list[Any]
) -> None:
    for window, answer in zip(windows(), answers, strict=True):
        frames = (window - np.float32(translator.source_tokenizer.mean)) / np.sqrt(
            np.float32(translator.source_tokenizer.variance)
        )
        found = kt.decoding.generate(translator.model, frames[None], translator.search, 6)
        assert TOKENIZER.detokenize(found.token_ids[:, 0]).numpy()[0].decode() == answer.text
        assert float(found.scores[0, 0]) == pytest.approx(answer.score, abs=1e-4)


def test_a_batch_of_any_form_answers_as_each_source_alone(
    translator: kt.Translator, answers: list[Any]
) -> None:
    padded = np.full((len(LENGTHS), 14, 3), np.nan, "float32")
    for number, (row, window) in enumerate(zip(padded, windows(), strict=True)):
        start = number % 3  # padding in front, too
        row[start : start + len(window)] = window
    for several in (windows(), padded, tf.constant(padded), [window.tolist() for window in windows()]):
        assert_equal(translator.translate_with_scores(several, batch_size=4), answers)
    assert translator.translate(windows()[0]) == answers[0].text
    assert translator.translate(tf.constant(windows()[0])) == answers[0].text
    assert translator.translate(iter(windows())) == [answer.text for answer in answers]


def test_reading_leaves_out_hidden_frames_and_those_that_are_not_finite() -> None:
    source = FrameNormalizer([1.0], [4.0])
    frames = np.array([[1, 3, 5, 7], [np.nan, 9, np.inf, 11], [1, 1, 1, 1]], "float32")[..., None]
    mask = np.array([[0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]], bool)
    (found, is_seen), is_cut = source.read((tf.constant(frames), tf.constant(mask)), 3)
    np.testing.assert_array_equal(found.numpy()[..., 0], [[1, 3, 0], [4, 5, 0], [0, 0, 0]])
    np.testing.assert_array_equal(is_seen, [[1, 1, 0], [1, 1, 0], [0, 0, 0]])
    assert not np.any(is_cut)
    assert source.read((tf.constant(frames), tf.constant(mask)), 1)[1].numpy().tolist() == [True, True, False]
    assert source.is_empty((tf.constant(frames), tf.constant(mask))).numpy().tolist() == [False, False, True]
    assert source.position_names((found, is_seen), 1).numpy().tolist() == [
        [b"0", b"1", b""],
        [b"0", b"1", b""],
        [b""] * 3,
    ]


@pytest.mark.slow
def test_what_is_behind_the_mask_changes_nothing(translator: kt.Translator, answers: list[Any]) -> None:
    source = translator.reader
    frames, mask = (column.numpy() for column in source.batch(windows()))
    for garbage in (np.nan, np.inf, -1e30, 7.0):
        columns = tf.constant(np.where(mask[..., None], frames, garbage)), tf.constant(mask)
        found = translator.functions["serving_default"](*columns, range(len(frames)))
        assert [text.decode() for text in found["output"].numpy()] == [answer.text for answer in answers]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"source_convolutions": True}, {"positions": "rotary"}])
def test_other_models_answer_alike_alone_and_among_others(options: dict[str, Any]) -> None:
    translator = make_translator(**options)
    alone = [translator.translate_with_scores([window])[0] for window in windows()]
    padded = np.full((len(LENGTHS), 15, 3), np.nan, "float32")
    for row, window in zip(padded, windows(), strict=True):
        row[1 : 1 + len(window)] = window
    assert_equal(translator.translate_with_scores(padded), alone)
    [alignment] = translator.align([windows()[0]])
    numbers = range(0, 7, 2 if "source_convolutions" in options else 1)
    assert alignment.source_tokens == tuple(map(str, numbers))
    assert alignment.attention.shape == (len(alignment.output_tokens), len(numbers))
    np.testing.assert_allclose(alignment.attention.sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.slow
def test_n_best_score_align_stream_and_attention_maps(translator: kt.Translator, answers: list[Any]) -> None:
    window, [best] = windows()[4], answers[4:5]
    hypotheses = translator.n_best([window])[0]
    assert_equal(hypotheses[:1], [best])
    assert len(hypotheses) == 2
    [scored] = translator.score([window], ["wx"])
    assert scored.num_tokens == 3
    [alignment] = translator.align([window])
    assert (alignment.text, alignment.attention.shape[1]) == (best.text, 12)
    again, maps = translator.attention_maps(window)
    np.testing.assert_allclose(again.attention, alignment.attention, atol=1e-5)
    assert maps["encoder/layer_1/self_attention"].shape == (2, 12, 12)
    greedy = translator.with_changes(search=GreedySearch())
    assert "".join(translator.stream(window)) == greedy.translate(window)


def test_no_frames_have_an_empty_output(translator: kt.Translator) -> None:
    for nothing in (np.zeros((0, 3)), np.full((4, 3), np.nan)):
        [answer] = translator.translate_with_scores([nothing])
        assert (answer.text, answer.score) == ("", 0.0)
        assert [*translator.stream(nothing)] == []
        assert translator.align([nothing])[0].attention.shape == (0, 0)
    assert translator.score([np.zeros((0, 3))], [""])[0].score == 0.0
    assert translator.translate([]) == translator.translate(np.zeros((0, 5, 3))) == []
    mixed = translator.translate([np.zeros((0, 3)), windows()[0]])
    assert mixed == ["", translator.translate(windows()[0])]


def test_long_sources_are_cut_off_with_a_warning(translator: kt.Translator) -> None:
    many = np.concatenate([windows()[4], np.full((10_000, 3), 5.0, "float32")])
    with pytest.warns(TruncationWarning, match=r"1 of 2 were longer .*max_source_length=12"):
        assert translator.translate([many, windows()[4]]) == [translator.translate(windows()[4])] * 2
    with pytest.warns(TruncationWarning, match="longer than the translator's 12 frames"):
        [*translator.stream(many)]


@pytest.mark.slow
def test_learned_positions_are_the_limit_of_frames() -> None:
    options = {"positions": "learned", "max_length": 5}
    translator = make_translator(**options)
    assert (translator.max_source_length, translator.max_target_length) == (5, 5)
    convolved = make_translator(**options, source_convolutions=True)
    assert convolved.max_source_length == 10
    with pytest.warns(TruncationWarning):
        assert all(score.score > -1e3 for score in convolved.translate_with_scores(windows()))


WRONG = {
    "width": (np.zeros((5, 4)), ValueError, r"Frames must have the 3 features of the model.*\(1, 5, 4\)"),
    "one frame": ([[1.0, 2.0, 3.0]], ValueError, r"`texts\[0\]` must have the shape \(s, w\)"),
    "NaN": ([[[1.0, np.nan, 3.0]]], ValueError, "nan in frame 0, feature 1"),
    "text": ("abc", TypeError, "must be several arrays"),
    "texts": (["abc"], TypeError, "must hold numbers"),
    "none": (None, TypeError, "must be several arrays"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_sources_are_refused(translator: kt.Translator, name: str) -> None:
    value, kind, message = WRONG[name]
    with pytest.raises(kind, match=message):
        translator.translate(value)


def test_whole_numbers_are_frames(translator: kt.Translator) -> None:
    whole = windows()[0].astype("int16")
    assert translator.translate(whole) == translator.translate(whole.astype("float64"))


@pytest.mark.slow
def test_it_is_saved_loaded_and_copied(translator: kt.Translator, answers: list[Any], tmp_path: Path) -> None:
    translator.save(tmp_path / "saved")
    for again in (kt.Translator.load(tmp_path / "saved"), pickle.loads(pickle.dumps(translator))):
        assert again.source_tokenizer.fingerprint() == translator.source_tokenizer.fingerprint()
        assert_equal(again.translate_with_scores(windows()), answers)


@pytest.mark.slow
def test_without_a_normalizer_frames_are_read_as_they_are(
    translator: kt.Translator, answers: list[Any], tmp_path: Path
) -> None:
    options: dict[str, Any] = {"search": translator.search, "max_target_length": 6}
    plain = kt.Translator(translator.model, target_tokenizer=TOKENIZER, **options)
    normalized = [translator.source_tokenizer(window).numpy() for window in windows()]
    assert_equal(plain.translate_with_scores(normalized), answers)
    plain.save(tmp_path / "plain")
    assert_equal(kt.Translator.load(tmp_path / "plain").translate_with_scores(normalized), answers)
    assert_equal(
        kt.Translator(translator.model, None, TOKENIZER, **options).translate_with_scores(normalized), answers
    )


def test_a_wrong_reader_is_refused(translator: kt.Translator) -> None:
    model = translator.model
    with pytest.raises(ValueError, match="of frames of 2 numbers, a model with encoder_feature_dim=3"):
        kt.Translator(model, FrameNormalizer.identity(2), TOKENIZER)
    with pytest.raises(TypeError, match=r"A tokenizer of each side .* target_tokenizer=None"):
        kt.Translator(model, TOKENIZER)
    texts = kt.Transformer(8, 8, **SIZES)
    with pytest.raises(TypeError, match=r"A tokenizer of each side .* source_tokenizer=None"):
        kt.Translator(texts, target_tokenizer=TOKENIZER)
    with pytest.raises(ValueError, match="a model with encoder_feature_dim=None"):
        kt.Translator(texts, FrameNormalizer.identity(3), TOKENIZER)


@pytest.mark.slow
def test_an_ensemble_of_frames(translator: kt.Translator) -> None:
    ensemble = kt.models.Ensemble([translator.model, make_model(num_layers=2)])
    both = kt.Translator(ensemble, translator.source_tokenizer, TOKENIZER, search=GreedySearch())
    alone = [both.translate(window) for window in windows()]
    assert both.translate(windows()) == alone


@pytest.mark.slow
def test_scores_of_a_run_and_of_a_callback_take_frames(translator: kt.Translator, answers: list[Any]) -> None:
    pairs = [(window, answer.text) for window, answer in zip(windows(), answers, strict=True)]
    kind = kt.runs.RunKind.of(kt.runs.RunConfig.default(task="frames"))
    assert kind.score(translator, pairs)[0]["exact_match"] == 1.0
    twice = [*pairs, (pairs[0][0].copy(), "w")]
    assert kind.score(translator, twice, unique=True)[0].num_items == len(pairs)
    callback = kt.evaluation.DecodeAndScore(lambda _: translator, pairs, "exact_match")
    translator.model.compile("adam", "mse")
    callback.set_model(translator.model)
    assert callback.score() == 1.0
