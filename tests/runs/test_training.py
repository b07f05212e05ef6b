"""Ranges and names of the training recipe and of the search."""

import math
import re
from typing import Any

import pytest

from keras_transformer.runs import DataConfig, DecodingConfig, TrainingConfig


@pytest.mark.parametrize(("name", "minimum"), [("epochs", 1), ("warmup_steps", 1), ("seed", 0)])
def test_training_numbers(name: str, minimum: int) -> None:
    value = minimum - 1
    with pytest.raises(
        ValueError, match=rf"`{name}` must be at least {minimum}\. Received: {name}={value}\."
    ):
        TrainingConfig(**{name: value})


@pytest.mark.parametrize("section", [DataConfig, TrainingConfig])
def test_a_seed_is_one_that_every_generator_takes(section: Any) -> None:
    assert section(seed=2**32 - 1).seed == 2**32 - 1
    with pytest.raises(ValueError, match=r"`seed` must be below 2\^32\. Received: seed=4294967296\."):
        section(seed=2**32)


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


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("r_drop", -1.0, "at least 0"),
        ("clip_norm", 0.0, "above 0 and finite"),
        ("gradient_accumulation_steps", 0, "at least 1"),
        ("ema_momentum", 1.0, "at least 0 and below 1"),
        ("average_last", 0, "at least 1"),
        ("monitored_pairs", 0, "at least 1"),
        ("patience", 0, "at least 1"),
        ("monitor", "accuracy", "one of loss, bleu, .*"),
    ],
)
def test_options_of_the_recipe_have_ranges(name: str, value: Any, wanted: str) -> None:
    with pytest.raises(ValueError, match=rf"^`{name}` must be {wanted}\. Received: {name}={value!r}\.$"):
        TrainingConfig(**{name: value})


def test_options_of_the_recipe_are_off_by_default() -> None:
    training = TrainingConfig()
    assert (training.r_drop, training.gradient_accumulation_steps, training.monitor) == (0.0, 1, "loss")
    off = (training.clip_norm, training.ema_momentum, training.average_last, training.patience)
    assert off == (None, None, None, None)
