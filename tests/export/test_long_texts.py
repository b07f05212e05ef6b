"""A server translates long texts in pieces, as the translator does, whatever the form of the export."""

from pathlib import Path
from typing import Any

import pytest

import keras_transformer as kt
from keras_transformer.export import ServedModel, export_saved_model

LONG = "a dog sat. The cat ran!\n\n  a rat sat on the dog and the cat ran. a"
TEXTS = [LONG, "a dog", "", f" {LONG * 9}", "a rat " * 99, "x" * 99]

pytestmark = pytest.mark.filterwarnings("ignore::keras_transformer.tasks.TruncationWarning")


def check(served: ServedModel, translator: kt.Translator) -> None:
    answers, wanted = served.translate_with_scores(TEXTS), translator.translate_with_scores(TEXTS)
    assert [each.text for each in answers] == [each.text for each in wanted]
    assert [each.score for each in answers] == pytest.approx([each.score for each in wanted], abs=1e-4)
    assert "\n\n  " in answers[0].text
    assert [served.translate(text) for text in TEXTS] == [each.text for each in answers]


def test_a_served_model_splits_long_texts(exported: Path, translator: kt.Translator) -> None:
    check(ServedModel(exported), translator)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"threads": 2}, {"optimize": "xla"}])
def test_exports_are_verified_with_a_long_text(
    subword_translator: kt.Translator, tmp_path: Path, options: dict[str, Any]
) -> None:
    export_saved_model(subword_translator, tmp_path / "tiny", TEXTS, **options)
    check(ServedModel(tmp_path / "tiny"), subword_translator)
    assert "splits it at the ends" in (tmp_path / "tiny" / "1" / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("split_texts", ["all", "none"])
def test_the_option_travels_with_the_export(
    translator: kt.Translator, tmp_path: Path, split_texts: Any
) -> None:
    changed = translator.with_changes(split_texts=split_texts)
    export_saved_model(changed, tmp_path / "tiny", TEXTS)
    answers = ServedModel(tmp_path / "tiny").translate([LONG, "a dog. The cat."])
    assert answers == changed.translate([LONG, "a dog. The cat."])
    assert (" " in answers[1]) == (split_texts == "all")
