"""The score of each epoch against answers known beforehand, and what the logs and other callbacks get."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer.errors import InputError
from keras_transformer.evaluation import DecodeAndScore
from keras_transformer.text import WhitespaceTokenizer
from keras_transformer.training import Checkpoint

X, Y = np.ones((2, 1), "float32"), np.zeros((2, 1), "float32")
PAIRS = [("a b", "a b"), ("c d", "c d"), ("e f", ["e g", "e f"]), ("g h", "x y")]


class Halving(keras.Model):
    """A weight that is 8 and that each step of `fit` halves: gradient `w`, rate 1/2."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = self.add_weight(shape=(), initializer=keras.initializers.Constant(8.0))

    def call(self, x: Any) -> Any:
        return x * self.scale


class Parrot:
    """Repeats the sources, but as many of them as the model's weight says only by their first word."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.calls: list[tuple[float, int, int]] = []

    def translate(self, texts: Sequence[str], batch_size: int) -> list[str]:
        weight = float(self.model.scale)
        self.calls.append((weight, len(texts), batch_size))
        return [text[0] if number < weight else text for number, text in enumerate(texts)]


class Parrots(list[Parrot]):
    """Makes parrots, and keeps them."""

    def __call__(self, model: Any) -> Any:
        self.append(Parrot(model))
        return self[-1]

    @property
    def weights(self) -> list[float]:
        return [weight for weight, *_ in self[-1].calls]


def fit(callbacks: list[Any], epochs: int, **optimizer: Any) -> tuple[Halving, dict[str, list[float]]]:
    """Train by one step for each epoch: the weight is 4, 2, 1, 0.5, ... at the end of an epoch."""
    model = Halving()
    model.compile(keras.optimizers.SGD(0.25, **optimizer), "mse")
    return model, model.fit(X, Y, epochs=epochs, batch_size=2, verbose=0, callbacks=callbacks).history


def test_the_score_is_that_of_the_answers_of_the_epoch() -> None:
    parrots = Parrots()
    _, history = fit([DecodeAndScore(parrots, PAIRS, "exact_match")], epochs=4)
    assert parrots.weights == [4, 2, 1, 0.5]
    assert history["val_exact_match"] == [0, 0.25, 0.5, 0.5]  # the last of the four is always wrong
    assert history["val_exact_match_loss"] == [1, 0.75, 0.5, 0.5]
    assert len(parrots) == 1  # one translator, traced once, for all epochs


def test_an_error_rate_is_its_own_loss() -> None:
    scoring = DecodeAndScore(Parrots(), PAIRS, "token_error_rate")
    assert scoring.monitor == "val_token_error_rate"
    _, history = fit([scoring], epochs=3)
    # Deleted words of eight, and the two of the last pair that are wrong in any case.
    assert history["val_token_error_rate"] == pytest.approx([5 / 8, 4 / 8, 3 / 8])
    assert "val_token_error_rate_loss" not in history


def test_bleu_counts_from_100() -> None:
    pairs = [("a b c d e", "a b c d e")]
    scoring = DecodeAndScore(Parrots(), pairs, tokenize="none")
    assert scoring.monitor == "val_bleu_loss"
    _, history = fit([scoring], epochs=4)
    assert history["val_bleu"][-1] == pytest.approx(0, abs=1e-6)  # the weight 0.5 is above the number 0
    scoring.model.scale.assign(0)
    assert scoring.score() == pytest.approx(100)
    assert history["val_bleu_loss"] == pytest.approx([100 - value for value in history["val_bleu"]])


def test_limit_and_batch_size() -> None:
    parrots = Parrots()
    _, history = fit([DecodeAndScore(parrots, PAIRS, "exact_match", limit=3, batch_size=7)], epochs=3)
    assert parrots[0].calls[-1] == (1, 3, 7)
    assert history["val_exact_match"][-1] == pytest.approx(2 / 3)


def test_the_moving_average_is_scored() -> None:
    parrots = Parrots()
    fit([DecodeAndScore(parrots, PAIRS, "exact_match")], epochs=3, use_ema=True, ema_momentum=0.5)
    assert parrots.weights == [4, 3, 2]  # 4, then 4 / 2 + 2 / 2, then 3 / 2 + 1 / 2


def test_the_next_run_asks_for_a_new_translator() -> None:
    parrots = Parrots()
    scoring = DecodeAndScore(parrots, PAIRS, "exact_match")
    for _ in range(2):
        model, history = fit([scoring], epochs=1)
        assert history["val_exact_match"] == [0]
    assert [parrot.model is model for parrot in parrots] == [False, True]


def test_checkpoints_and_early_stopping_go_by_the_score(tmp_path: Path) -> None:
    scoring = DecodeAndScore(Parrots(), PAIRS, "exact_match")
    stopping = keras.callbacks.EarlyStopping(scoring.monitor, mode="min", patience=2)
    fit([scoring, Checkpoint(tmp_path, monitor=scoring.monitor), stopping], epochs=11)
    checkpoint = Checkpoint(tmp_path)
    assert (checkpoint.epoch, checkpoint.best_epoch) == (5, 3)
    assert checkpoint.history[scoring.monitor][2] == 0.5


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'exact_match', .*Received: metric='accuracy'\."):
        DecodeAndScore(Parrots(), PAIRS, "accuracy")
    with pytest.raises(ValueError, match=r"at least one pair\. Received: pairs=\[\]\."):
        DecodeAndScore(Parrots(), [])
    for option in ({"limit": 0}, {"batch_size": 0}):
        [name] = option
        with pytest.raises(ValueError, match=rf"`{name}` must be above zero\. Received: {name}=0\."):
            DecodeAndScore(Parrots(), PAIRS, **option)


def test_a_metric_that_is_always_zero_is_refused() -> None:
    pairs = [("CAT", "K AE T"), ("DOG", ["D AO G", "D AA G"])]
    with pytest.raises(
        InputError, match=r"Received: bleu with the tokenization '13a', .*'K AE T'.*exact_match"
    ):
        DecodeAndScore(Parrots(), pairs, "bleu")
    DecodeAndScore(Parrots(), pairs, "bleu", tokenize="char")
    DecodeAndScore(Parrots(), pairs, "exact_match")


def test_references_are_such_as_the_vocabulary_can_write() -> None:
    pairs = [("a", "A B C D"), ("b", ["B C D E", "B"])]

    class LowerCase(Parrots):
        """Answers rightly, as far as its vocabulary goes."""

        target_tokenizer = WhitespaceTokenizer.train(["A B C D E"], lowercase=True)

        def translate(self, sources: Any, **_: Any) -> list[str]:
            return ["a b c d", "b c d e"]

    for metric, expected in (("exact_match", 1.0), ("bleu", 100.0)):
        scoring = DecodeAndScore(lambda _: LowerCase(), pairs, metric, tokenize="none")
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        scoring.set_model(model)
        assert scoring.score() == pytest.approx(expected)
