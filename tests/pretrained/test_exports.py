"""A pretrained model in other engines: our exports, and what their own converter makes of its directory."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.export import (
    ServedModel,
    export_ctranslate2,
    export_litert,
    export_onnx,
    export_saved_model,
)
from pretrained_models import CORPUS, save_translator

pytestmark = [
    pytest.mark.backend,
    pytest.mark.slow,
    # Of transformers' Marian tokenizer, which CTranslate2's converter loads.
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
]
TEXTS = CORPUS[:6]


def imported(family: str, directory: Path) -> kt.Translator:
    save_translator(family, directory, max_length=20)
    languages = ("en", "de") if family == "m2m100" else ()
    translator = kt.from_hugging_face(directory, *languages)
    # CTranslate2 cuts an output off where BART and Marian force its end.
    rules = dataclasses.replace(translator.search.constraints, force_end=False)
    translator.search = dataclasses.replace(translator.search, constraints=rules)
    return translator


def pieces(tokenizer: Any, token_ids: Any) -> list[list[str]]:
    """Name tokens, without padding and the end token."""
    rows = [row[: np.argmax((row == 3) | (row == 0))] if (row <= 3).any() else row for row in token_ids]
    return [unnamed([name.decode() for name in tokenizer.tokens([row]).numpy()[0]]) for row in rows]


def unnamed(names: list[str]) -> list[str]:
    """Give one name to the rows of a table that have no token, which converters name as they like."""
    return ["?" if name.startswith(("<no token", "<extra_id")) else name for name in names]


def answers(directory: Path, sources: list[list[str]], first: list[str]) -> list[list[str]]:
    """Translate greedily with CTranslate2."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    engine = ctranslate2.Translator(str(directory))
    results = engine.translate_batch(
        sources, beam_size=1, max_decoding_length=19, target_prefix=[first] * len(sources)
    )
    return [unnamed(result.hypotheses[0]) for result in results]


@pytest.mark.parametrize("family", ["marian", "t5", "bart", "m2m100"])
def test_other_engines_give_its_tokens(family: str, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    translator = imported(family, tmp_path / "hub")
    source_ids = translator.source_tokenizer.padded_ids(TEXTS, 64).numpy()
    sources = pieces(translator.source_tokenizer, source_ids)
    wanted = pieces(translator.target_tokenizer, np.array(translator.generate(source_ids).token_ids)[:, 0])
    assert len({len(row) for row in wanted} | {len(set(map(tuple, wanted)))}) > 1  # outputs differ
    [first] = pieces(translator.target_tokenizer, np.array([translator.search.constraints.first_token_ids]))
    export_ctranslate2(translator, tmp_path / "ours")
    assert answers(tmp_path / "ours", sources, first) == wanted
    if family in ("marian", "t5"):  # their converter takes no such tiny model of the others
        converters = pytest.importorskip("ctranslate2.converters")
        converters.TransformersConverter(str(tmp_path / "hub")).convert(str(tmp_path / "theirs"))
        assert answers(tmp_path / "theirs", [[*row, "</s>"] for row in sources], first) == wanted


@pytest.mark.parametrize("family", ["marian", "t5"])
def test_exports_answer_as_it_does(family: str, tmp_path: Path) -> None:
    translator = imported(family, tmp_path / "hub")
    export_saved_model(translator, tmp_path / "saved", TEXTS)
    assert ServedModel(tmp_path / "saved").translate(TEXTS) == translator.translate(TEXTS)
    # These compare the answers themselves.
    export_litert(translator, tmp_path / "model.tflite", examples=TEXTS)
    pytest.importorskip("tf2onnx")
    export_onnx(translator, tmp_path / "model.onnx", examples=TEXTS)
