"""A pretrained translator that is trained further answers from its export."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import keras_transformer as kt
from pretrained_models import CORPUS, save_translator

pytestmark = [pytest.mark.slow, pytest.mark.backend]


def test_the_loss_falls_and_the_export_answers(
    load_example: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_translator("marian", tmp_path / "hub", num_beams=2, max_length=60)
    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\t{text}\n" for text in CORPUS), encoding="utf-8")
    words = [str(tmp_path / name) for name in ("hub", "pairs.tsv", "run", "served")]
    options = ["--epochs", "2", "--learning-rate", "1e-2"]
    monkeypatch.setattr(sys, "argv", ["fine_tune_pretrained.py", *words, *options])
    load_example("fine_tune_pretrained").main()
    served = kt.export.ServedModel(tmp_path / "served")
    assert served.translate(CORPUS[:3]) == kt.Translator.load(tmp_path / "run").translate(CORPUS[:3])
