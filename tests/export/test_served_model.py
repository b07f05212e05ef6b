"""Finding, loading and asking an export from Python."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.export import ServedModel

TEXTS = ["a dog sat", "", "the cat", "\U0001f600 שלום", "x" * 100_000, "a\x00b", "the rat ran"]


@pytest.mark.filterwarnings("ignore:.*longer than the translator's limits")
def test_answers_are_those_of_the_translator(exported: Path, translator: kt.Translator) -> None:
    served = ServedModel(exported)
    answers = served.translate_with_scores(iter(TEXTS), batch_size=3)
    wanted = translator.translate_with_scores(TEXTS)
    assert [answer.text for answer in answers] == [answer.text for answer in wanted]
    assert [answer.score for answer in answers] == pytest.approx([w.score for w in wanted], abs=1e-4)
    assert [len(answers) for answers in served.n_best(TEXTS, num=2)] == [2, 1, 2, 2, 2, 2, 2]
    outputs = [answer.text for answer in wanted]
    scores, wanted_scores = served.score(TEXTS, outputs), translator.score(TEXTS, outputs)
    assert [score.num_tokens for score in scores] == [score.num_tokens for score in wanted_scores]
    assert [s.score for s in scores] == pytest.approx([s.score for s in wanted_scores], abs=1e-4)
    for alignment, other in zip(served.align(TEXTS), translator.align(TEXTS), strict=True):
        assert (alignment.text, alignment.source_tokens) == (other.text, other.source_tokens)
        assert alignment.output_tokens == other.output_tokens
        np.testing.assert_allclose(alignment.attention, other.attention, atol=1e-4)


@pytest.mark.slow
def test_what_is_cut_off_is_said(exported: Path) -> None:
    with pytest.warns(
        kt.tasks.TruncationWarning, match="^1 of 3 were longer than the translator's limits and"
    ):
        ServedModel(exported).translate(["a dog", "a dog " * 9, " " * 99])


def test_a_search_with_options_is_as_every_call(exported: Path, translator: kt.Translator) -> None:
    served, seen = ServedModel(exported), []
    with pytest.warns(kt.tasks.TruncationWarning, match="^1 of 3 were longer"):
        found = served.search(["a", "a dog " * 9, "the cat"], 2, batch_size=2, progress=seen.append)
    assert seen == [2, 1]
    assert [row[0].text for row in found][::2] == translator.translate(["a", "the cat"])
    assert [len(row) for row in found] == [2, 2, 2]
    for size in (0, -1):
        with pytest.raises(ValueError, match=f"`batch_size` must be above zero. Received: batch_size={size}"):
            served.search(["a"], batch_size=size)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::keras_transformer.tasks.TruncationWarning")
def test_answers_do_not_depend_on_the_batch(exported: Path) -> None:
    served = ServedModel(exported)
    alone = [served.translate([text])[0] for text in TEXTS]
    assert alone == served.translate(TEXTS)


def make_parts(directory: Path) -> None:
    for part in ("saved_model.pb", "variables/variables.index"):
        (directory / part).parent.mkdir(parents=True, exist_ok=True)
        (directory / part).write_bytes(b"damaged")


def test_the_highest_version_is_taken_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    for version in ("9", "10"):
        make_parts(tmp_path / version)
    for directory, version in ((tmp_path, "10"), (tmp_path / "9", "9")):
        with pytest.raises(InputError, match=f"{tmp_path}/{version}/saved_model.pb is damaged: it holds"):
            ServedModel(directory)


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{tmp_path} is not the directory of a SavedModel"):
        ServedModel(tmp_path)


@pytest.mark.parametrize("part", ["saved_model.pb", "variables/variables.index"])
def test_a_half_written_version_is_refused(tmp_path: Path, part: str) -> None:
    make_parts(tmp_path / "1")
    (tmp_path / "1" / part).unlink()
    with pytest.raises(InputError, match=rf"{tmp_path}/1 is not a whole SavedModel: it has no {part}\."):
        ServedModel(tmp_path)


def test_another_saved_model_is_refused(tmp_path: Path) -> None:
    module = tf.Module()
    double = tf.function(lambda text: text, input_signature=[tf.TensorSpec([None], tf.int32, name="text")])
    tf.saved_model.save(module, str(tmp_path / "a"), {"predict": double.get_concrete_function()})
    with pytest.raises(InputError, match=r"a has no signature serving_default\. It has: predict\."):
        ServedModel(tmp_path / "a")
    tf.saved_model.save(module, str(tmp_path / "b"), {"serving_default": double.get_concrete_function()})
    with pytest.raises(InputError, match=r"b: serving_default must take .*string.* Received: .*int32"):
        ServedModel(tmp_path / "b")


def test_more_hypotheses_than_there_are_are_refused(exported: Path) -> None:
    with pytest.raises(ValueError, match=r"between 1 and the 2 hypotheses .* Received: num=3\."):
        ServedModel(exported).n_best(["a"], num=3)
