"""The parity program on a random translator, and its report on answers that differ."""

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import keras
import numpy as np
import pytest

import keras_transformer as kt

pytest.importorskip("ctranslate2", reason="the extra `interop` is not installed")
if keras.backend.backend() != "tensorflow":
    pytest.skip("tokenizers are TensorFlow", allow_module_level=True)

TEXTS = ["a dog sat", "the cat ran", "a rat"]


@pytest.fixture
def parity(benchmarks: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program as a module."""
    monkeypatch.syspath_prepend(benchmarks)
    return importlib.import_module("decoding_parity")


@pytest.fixture(scope="module")
def translator() -> kt.Translator:
    keras.utils.set_random_seed(1)
    tokenizer = kt.text.CharacterTokenizer.train(TEXTS)
    size = tokenizer.vocabulary_size
    model = kt.Transformer(size, size, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8)
    return kt.Translator(model, tokenizer, tokenizer, max_source_length=20, max_target_length=7)


def test_scores_are_sums_of_log_probabilities(parity: ModuleType, translator: kt.Translator) -> None:
    rows, answers = [[5, 3], [6, 7, 8, 3]], [[5, 6, 3], [3]]
    [first, second] = parity.scores(translator.model, rows, answers)
    alone = parity.scores(translator.model, rows[1:], answers[1:])
    assert second == pytest.approx(alone[0], abs=1e-5)
    logits = translator.model(
        {"encoder_token_ids": np.array([[5, 3]]), "decoder_token_ids": np.array([[2, 5, 6]])}
    )
    probabilities = keras.ops.convert_to_numpy(keras.ops.softmax(logits))[0]
    assert first == pytest.approx(np.log(probabilities[[0, 1, 2], [5, 6, 3]]).sum(), abs=1e-5)
    assert parity.scores(translator.model, [], []) == []


def test_differences_are_told_by_their_line(parity: ModuleType, translator: kt.Translator) -> None:
    rows, ours, theirs = [[5, 3]] * 3, [[5, 3], [6, 3], [7, 3]], [[5, 3], [7, 3], [7, 3]]
    [found] = parity.differences(translator.model, rows, ours, theirs)
    assert found.line == 2
    assert found.ours != found.theirs


def test_the_report_tells_ties_from_better_answers(parity: ModuleType) -> None:
    found = [parity.Difference(3, -1.0, -1.00005), parity.Difference(7, -1.0, -1.5)]
    row, *lines = parity.report("beam 4", 1000, found)
    assert row == "| beam 4 | 1,000 | 99.80 % | 2 | 1 | 1 | 0 |"
    assert lines[1] == "beam 4, line 7: ours -1.000000, CTranslate2 -1.500000, gap +0.500000"


@pytest.mark.slow
def test_the_program_prints_both_searches(
    run_program: Callable[..., str], translator: kt.Translator, tmp_path: Path
) -> None:
    translator.save(tmp_path / "model")
    (tmp_path / "sources.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    output = run_program("decoding_parity", tmp_path / "model", tmp_path / "sources.txt", "--patience", 9)
    assert "| greedy | 3 | 100.00 % | 0 |" in output
    assert "| beam 4 | 3 | " in output
