"""The example ends with what it promises."""

from collections.abc import Callable

import pytest


@pytest.mark.slow
def test_the_small_setting_guesses_hidden_characters(run_example: Callable[[str], str]) -> None:
    assert "guessed: " in run_example("masked_tokens.py")
