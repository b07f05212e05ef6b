"""Scores of a model and of an export."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keras_transformer.runs import RunKind


def test_a_model_and_its_export_score_alike(command: Callable, trained: Path, pairs_file: Path) -> None:
    words = ["evaluate", "--pairs", pairs_file]
    first = command(*words, "--model", trained / "runs/tiny")
    second = command(*words, "--saved-model", trained / "saved_models/tiny")
    assert first.exit_code == 0, first.output
    assert first.stdout == second.stdout
    assert "outputs: 40" in first.stdout


@pytest.mark.slow
def test_unique_sources_count_once(command: Callable, trained: Path) -> None:
    Path("pairs.tsv").write_text("w1ab\tW1AB\nw1ab\tother\n", encoding="utf-8")
    words = ["evaluate", "--pairs", "pairs.tsv", "--model", trained / "runs/tiny"]
    assert "outputs: 2" in command(*words).stdout
    assert "outputs: 1" in command(*words, "--unique").stdout


@pytest.mark.slow
def test_further_columns_are_further_targets(command: Callable, trained: Path) -> None:
    Path("pairs.tsv").write_text("w1ab\tother\n", encoding="utf-8")
    model = ["--model", trained / "runs/tiny", "--unique"]
    [answer] = command("translate", *model[:2], "w1ab").stdout.splitlines()
    Path("right.tsv").write_text(f"w1ab\tother\t{answer}\n", encoding="utf-8")
    for name, share in (("pairs", "0.00 %"), ("right", "100.00 %")):
        output = command("evaluate", "--pairs", f"{name}.tsv", *model).stdout
        assert "outputs: 1" in output
        assert re.search(rf"exact match +{share}", output)


def test_pairs_or_files_are_needed(command: Callable) -> None:
    for words in ([], ["--source", "a"], ["--pairs", "a.tsv", "--source", "a", "--target", "b"]):
        result = command("evaluate", *words)
        assert result.exit_code == 2
        assert "Give --pairs, or --source and --target" in result.stderr


@pytest.mark.slow
def test_a_search_can_be_tried(command: Callable, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searches = []

    def remember(self: Any, translator: Any, *arguments: Any, **options: Any) -> tuple[str, list[Any]]:
        searches.append((translator.search.beam_size, translator.search.length_penalty))
        return "", []

    monkeypatch.setattr(RunKind.kinds["translate"], "score", remember)
    words = ["evaluate", "--pairs", "dates", "--model", trained / "runs/tiny"]
    for options in ([], ["--length-penalty", "0.5"], ["--beam-size", "3"]):
        assert command(*words, *options).exit_code == 0
    assert searches == [(2, 1.0), (2, 0.5), (3, 1.0)]


def test_an_export_searches_as_it_was_exported(command: Callable, trained: Path, pairs_file: Path) -> None:
    words = ["--saved-model", trained / "saved_models/tiny", "--length-penalty", "2"]
    result = command("evaluate", "--pairs", pairs_file, *words)
    assert result.exit_code == 2
    assert "An export has a fixed search" in result.stderr


def test_a_penalty_that_is_no_number_is_one_line(command: Callable, trained: Path, pairs_file: Path) -> None:
    words = ["--model", trained / "runs/tiny", "--length-penalty", "nan"]
    result = command("evaluate", "--pairs", pairs_file, *words)
    assert result.exit_code == 2
    assert "length_penalty" in result.stderr.splitlines()[-1]
