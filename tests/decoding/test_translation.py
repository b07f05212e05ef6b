"""What a translator answers."""

import numpy as np
import pytest

from keras_transformer.decoding.text_translator import Alignment, PairScore, Translation, TruncationWarning


def test_answers_are_values() -> None:
    assert Translation("a", -0.5) == Translation("a", -0.5) != Translation("a", -0.25)
    assert PairScore(-1.0, 2) != PairScore(-1.0, 3)


def test_alignments_are_compared_by_identity() -> None:
    first, second = (Alignment("", 0.0, (), (), np.zeros((2, 2))) for _ in range(2))
    assert first != second  # and does not ask whether arrays are true


def test_the_warning_can_be_filtered_by_its_class() -> None:
    assert issubclass(TruncationWarning, UserWarning)
    assert not issubclass(UserWarning, TruncationWarning)
    with pytest.raises(AttributeError):
        Translation("a", 0.0).text = "b"
