"""Ranges and names of the training recipe and of the search."""

import math
import re

import pytest

from keras_transformer.config import DecodingConfig, TrainingConfig


@pytest.mark.parametrize(("name", "minimum"), [("epochs", 1), ("warmup_steps", 1), ("seed", 0)])
def test_training_numbers(name: str, minimum: int) -> None:
    value = minimum - 1
    with pytest.raises(
        ValueError, match=rf"`{name}` must be at least {minimum}\. Received: {name}={value}\."
    ):
        TrainingConfig(**{name: value})


@pytest.mark.parametrize("value", [0.0, -0.001, math.nan, math.inf])
def test_the_learning_rate_is_positive_and_finite(value: float) -> None:
    message = f"`peak_learning_rate` must be above 0 and finite. Received: peak_learning_rate={value}."
    with pytest.raises(ValueError, match=re.escape(message)):
        TrainingConfig(peak_learning_rate=value)


def test_a_whole_number_is_a_learning_rate() -> None:
    assert TrainingConfig(peak_learning_rate=1).peak_learning_rate == 1


def test_label_smoothing_is_a_fraction() -> None:
    with pytest.raises(ValueError, match=r"`label_smoothing` .* Received: label_smoothing=1\.0\."):
        TrainingConfig(label_smoothing=1.0)


def test_schedule_and_precision_are_known() -> None:
    schedules = (
        r"`schedule` must be one of constant, cosine, inverse_square_root, noam\. Received: schedule='step'\."
    )
    with pytest.raises(ValueError, match=schedules):
        TrainingConfig(schedule="step")
    precisions = r"`precision` must be one of float32, .* Received: precision='float8'\."
    with pytest.raises(ValueError, match=precisions):
        TrainingConfig(precision="float8")


@pytest.mark.parametrize(
    ("name", "value", "minimum"),
    [("beam_size", 0, 1), ("batch_size", -3, 1), ("length_penalty", -0.5, 0), ("max_target_length", 1, 2)],
)
def test_decoding_numbers(name: str, value: float, minimum: int) -> None:
    with pytest.raises(
        ValueError, match=rf"`{name}` must be at least {minimum}\. Received: {name}={value}\."
    ):
        DecodingConfig(**{name: value})


def test_no_length_penalty_is_allowed() -> None:
    assert DecodingConfig(length_penalty=0).length_penalty == 0


def test_the_tokenization_of_bleu_is_known() -> None:
    with pytest.raises(
        ValueError, match=r"`bleu_tokenize` must be one of .*Received: bleu_tokenize='moses'\."
    ):
        DecodingConfig(bleu_tokenize="moses")
