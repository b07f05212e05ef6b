"""The example ends with what it promises."""

from collections.abc import Callable

import pytest


@pytest.mark.slow
def test_the_small_setting_needs_fewer_bits_than_counting(run_example: Callable[[str], str]) -> None:
    assert "bits for each character: " in run_example("english_text.py")
