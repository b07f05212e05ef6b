"""The example ends with what it promises."""

from collections.abc import Callable

import pytest


@pytest.mark.slow
def test_the_small_setting_continues_every_beginning(run_example: Callable[[str], str]) -> None:
    assert "continued exactly: 14 of 14 beginnings" in run_example("alternating_sequence.py")
