"""`fit` tells of a training that is too short: before it begins, and when it ends too soon."""

import logging
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt

IDS = np.random.default_rng(0).integers(4, 9, (8, 5))
NOTE = "keras_transformer.models.fit_notes"


def make_model(schedule: Any, **options: Any) -> keras.Model:
    model = kt.CausalLM(9, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8, dropout=0.0)
    kt.training.compile_model(model, schedule, **options)
    return model


@pytest.mark.parametrize(
    ("schedule", "options", "words"),
    [
        (kt.training.NoamSchedule(8), {}, "4 updates in 2 epochs, warmup_steps=4,000 of NoamSchedule"),
        (kt.training.InverseSquareRootSchedule(0.1, 5), {}, "4 updates in 2 epochs, warmup_steps=5 of Inv"),
        (kt.training.NoamSchedule(8, 3), {"gradient_accumulation_steps": 2}, "2 updates in 2 epochs"),
    ],
)
def test_a_training_inside_its_warm_up_is_told(schedule: Any, options: Any, words: str) -> None:
    model = make_model(schedule, **options)
    with pytest.warns(UserWarning, match=rf"shorter than its warm-up.*{words}.*`runs\.Recipe\.of"):
        model.fit(IDS, IDS, batch_size=4, epochs=2, verbose=0)


@pytest.mark.parametrize("schedule", [0.1, kt.training.NoamSchedule(8, 4)])
def test_a_training_that_gets_through_is_not(schedule: Any) -> None:
    model = make_model(schedule)
    model.fit(IDS, IDS, batch_size=4, epochs=2, verbose=0)
    model.optimizer.learning_rate = kt.training.NoamSchedule(8)
    model.fit(IDS, IDS, batch_size=4, epochs=3, initial_epoch=2, verbose=0)  # it goes on


@pytest.mark.parametrize("verbose", [pytest.param(0, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize(("learning_rate", "falls"), [(1e-3, True), (1e-9, False)])
def test_a_loss_that_still_falls_is_told(
    learning_rate: float, falls: bool, verbose: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    model = make_model(learning_rate)
    callback = keras.callbacks.LambdaCallback(
        # At so low a rate rounding decides, so the last loss is made the higher one.
        on_epoch_end=lambda epoch, logs: None if falls else logs.update(val_loss=float(epoch))
    )
    options: dict[str, Any] = {"epochs": 3, "verbose": verbose, "callbacks": callback}
    model.fit(IDS, IDS, validation_data=(IDS, IDS), **options)
    told = [record.getMessage() for record in caplog.records if record.name == NOTE]
    expected = (
        "The validation loss was still falling in epoch 3. To go on: `model.fit` with initial_epoch=3, "
        "epochs=6, or `training.fit` with epochs=6."
    )
    assert told == ([expected] if falls and verbose else [])


def test_a_list_of_callbacks_of_keras_is_taken() -> None:
    model = make_model(0.1)
    seen: list[int] = []
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch))
    several = keras.callbacks.CallbackList([callback], model=model, epochs=1)
    for callbacks in (callback, [callback], (callback,), several, None):
        model.fit(IDS, IDS, verbose=0, callbacks=callbacks)
    assert seen == [0] * 4
