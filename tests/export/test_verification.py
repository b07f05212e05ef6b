"""An export that answers otherwise is refused."""

from pathlib import Path

import pytest

from keras_transformer.decoding import Translation
from keras_transformer.export import ExportError, verification, verify_saved_model
from keras_transformer.export.verification import answers_of_fresh_process


@pytest.fixture
def fake_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [Translation("yes", -0.5)]
    monkeypatch.setattr(verification, "answers_of_fresh_process", lambda *a, **k: answers)


@pytest.mark.usefixtures("fake_answers")
def test_equal_answers_pass(tmp_path: Path) -> None:
    verify_saved_model(tmp_path, ["x"], [Translation("yes", -0.5)], needs_tensorflow_text=False)


@pytest.mark.usefixtures("fake_answers")
@pytest.mark.parametrize("wanted", [Translation("no", -0.5), Translation("yes", -0.4)])
def test_another_text_or_score_is_refused(tmp_path: Path, wanted: Translation) -> None:
    with pytest.raises(
        ExportError, match=r"must answer 'x' .* Received: Translation\(text='yes', score=-0.5"
    ):
        verify_saved_model(tmp_path, ["x"], [wanted], needs_tensorflow_text=False)


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"must answer on its own. Received: .*SavedModel"):
        answers_of_fresh_process(tmp_path, ["x"], needs_tensorflow_text=False)
