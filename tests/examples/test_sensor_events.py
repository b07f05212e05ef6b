"""The example ends with what it promises."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


@pytest.mark.slow
def test_the_small_setting_names_events(run_example: Callable[[str], str]) -> None:
    assert "events named exactly: " in run_example("sensor_events.py")


def test_windows_are_what_their_page_says(load_example: Callable[[str], Any]) -> None:
    generator = np.random.default_rng(0)
    pairs = [load_example("sensor_events").make_window(generator) for _ in range(200)]
    assert {frames.shape[1] for frames, _ in pairs} == {3}
    assert min(len(frames) for frames, _ in pairs) >= 20
    assert max(len(frames) for frames, _ in pairs) <= 114
    assert {name for _, text in pairs for name in text.split()} == {"tap", "shake", "turn", "drop"}
