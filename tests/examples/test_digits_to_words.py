"""The example ends with what it promises."""

from collections.abc import Callable

import pytest


@pytest.mark.slow
def test_the_small_setting_spells_images(run_example: Callable[[str], str]) -> None:
    assert "spelled exactly: " in run_example("digits_to_words.py")
