"""Schedules against their formulas, alone and inside a saved optimizer."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.training import InverseSquareRootSchedule, NoamSchedule

STEPS = [0, 1, 7, 99, 100, 101, 400, 100_000]
SCHEDULES = [InverseSquareRootSchedule(0.005, 100), NoamSchedule(64, 100, scale=2.0)]


def rates(schedule: Any, steps: list[int]) -> np.ndarray:
    return np.array([float(schedule(ops.convert_to_tensor(step, "int32"))) for step in steps])


def test_inverse_square_root() -> None:
    schedule = InverseSquareRootSchedule(0.005, 100, initial_learning_rate=1e-4)
    expected = [
        1e-4 + (0.005 - 1e-4) * step / 100 if step < 100 else 0.005 * (100 / step) ** 0.5 for step in STEPS
    ]
    np.testing.assert_allclose(rates(schedule, STEPS), expected, rtol=1e-5)


def test_inverse_square_root_peaks_where_warm_up_ends() -> None:
    curve = rates(InverseSquareRootSchedule(0.005, 8), list(range(33)))
    assert curve.argmax() == 8
    np.testing.assert_allclose(curve[[0, 8, 32]], [1e-7, 0.005, 0.0025], rtol=1e-5)


def test_noam_is_equation_3_of_the_paper() -> None:
    expected = [2.0 * 64**-0.5 * min((s + 1) ** -0.5, (s + 1) * 100**-1.5) for s in STEPS]
    np.testing.assert_allclose(rates(NoamSchedule(64, 100, scale=2.0), STEPS), expected, rtol=1e-5)


def test_noam_of_the_paper_peaks_at_7e_4() -> None:
    curve = rates(NoamSchedule(512), [3998, 3999, 4000])
    assert curve.argmax() == 1
    assert curve[1] == pytest.approx(6.9877e-4, rel=1e-4)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_survive_serialization(schedule: Any) -> None:
    config = keras.optimizers.schedules.serialize(schedule)
    restored = keras.optimizers.schedules.deserialize(config)
    assert type(restored) is type(schedule)
    assert restored.get_config() == schedule.get_config()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_are_saved_with_the_optimizer(schedule: Any, tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(schedule), loss="mse")
    model.train_on_batch(np.ones((4, 2)), np.ones((4, 1)))
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    assert int(restored.optimizer.iterations) == 1
    assert float(restored.optimizer.learning_rate) == pytest.approx(rates(schedule, [1])[0])


@pytest.mark.parametrize("name", ["hidden_dim", "warmup_steps"])
def test_noam_refuses_what_is_not_above_zero(name: str) -> None:
    with pytest.raises(ValueError, match=rf"`{name}` must be .*\. Received: {name}=0\."):
        NoamSchedule(**{"hidden_dim": 8, "warmup_steps": 8, name: 0})


def test_noam_refuses_a_wrong_scale() -> None:
    with pytest.raises(ValueError, match=r"`scale` must be above zero and finite\. Received: scale=-1\.5\."):
        NoamSchedule(8, scale=-1.5)


def test_inverse_square_root_refuses_wrong_values() -> None:
    with pytest.raises(ValueError, match=r"above zero and finite\. Received: peak_learning_rate=0\.0\."):
        InverseSquareRootSchedule(0.0)
    with pytest.raises(ValueError, match=r"Received: warmup_steps=-3\."):
        InverseSquareRootSchedule(0.1, -3)
