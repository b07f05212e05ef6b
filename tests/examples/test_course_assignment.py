"""The example ends with what it promises."""

from collections.abc import Callable

import pytest


@pytest.mark.slow
def test_the_small_setting_reverses_sequences(run_example: Callable[[str], str]) -> None:
    assert "reversed exactly: " in run_example("course_assignment.py")
