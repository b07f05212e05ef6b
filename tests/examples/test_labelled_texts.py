"""The example ends with what it promises."""

from collections.abc import Callable

import pytest


@pytest.mark.slow
def test_the_small_setting_labels_nine_of_ten_messages_right(run_example: Callable[[str], str]) -> None:
    assert "accuracy" in run_example("labelled_texts.py")
