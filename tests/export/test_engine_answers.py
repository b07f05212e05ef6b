"""An engine that answers otherwise is noticed."""

from collections.abc import Callable

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.export import ExportError
from keras_transformer.export.fixed_size import EngineAnswer, check_engine, greedy_translator

TEXTS = ["a dog", "the cat", ""]


@pytest.fixture(scope="module")
def greedy(translator: kt.Translator) -> kt.Translator:
    return greedy_translator(translator, source_length=11, max_length=5)


def engine(greedy: kt.Translator, change: Callable[[EngineAnswer], object]) -> Callable[..., EngineAnswer]:
    """Answer with the translator, and change what it gives; remember the shapes in `asked`."""

    def ask(source_ids: np.ndarray) -> EngineAnswer:
        result = greedy.generate(source_ids)
        answer = EngineAnswer(np.array(result.token_ids)[:, 0], np.array(result.scores)[:, 0])
        change(answer)
        ask.asked.append(source_ids)
        return answer

    ask.asked = []
    return ask


def test_every_text_is_asked_in_full_batches_of_the_full_length(greedy: kt.Translator) -> None:
    ask = engine(greedy, lambda answer: None)
    check_engine("It", ask, greedy, TEXTS, batch_size=2)
    assert [source_ids.shape for source_ids in ask.asked] == [(2, 11), (2, 11)]
    np.testing.assert_array_equal(ask.asked[0][0], ask.asked[1][1])  # the first text fills the last batch
    assert ask.asked[1][0].tolist() == [3] + [0] * 10


def test_another_token_is_noticed(greedy: kt.Translator) -> None:
    def change(answer: EngineAnswer) -> None:
        answer.token_ids[-1, 1] += 1

    with pytest.raises(ExportError, match=r"It must answer 'the cat' with the token ids \[.*Received"):
        check_engine("It", engine(greedy, change), greedy, TEXTS, batch_size=2)


def test_another_score_is_noticed(greedy: kt.Translator) -> None:
    def change(answer: EngineAnswer) -> None:
        answer.score[0] += 0.01

    with pytest.raises(ExportError, match=r"It must answer 'a dog' with .* and the score"):
        check_engine("It", engine(greedy, change), greedy, TEXTS)


def test_the_last_digit_of_a_score_may_differ(greedy: kt.Translator) -> None:
    def change(answer: EngineAnswer) -> None:
        answer.score[0] *= 1.00001

    check_engine("It", engine(greedy, change), greedy, TEXTS)
