"""The pairs that the example writes, for answers written in the test."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keras_transformer.data import read_lines

SOURCES = ["a dog runs .", "two men sit .", "a red car ."]
TARGETS = ["ein hund läuft .", "zwei männer sitzen .", "ein rotes auto ."]
Distill = Callable[..., None]


@pytest.fixture
def distill(load_example: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Distill:
    """Run the example in a new directory, on the pairs and on the answers of each model."""
    example = load_example("distillation")
    monkeypatch.chdir(tmp_path)

    def run(*answers_of_models: str, targets: list[str] = TARGETS) -> None:
        files = {"train.en": "\n".join(SOURCES), "train.de": "\n".join(targets)}
        files |= {f"answers_{number}.tsv": text for number, text in enumerate(answers_of_models)}
        for file, text in files.items():
            Path(file).write_text(text, encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["distillation.py", *files, "--output", "distilled"])
        example.main()

    return run


def test_the_nearest_answer_of_all_models_follows_the_pairs(
    distill: Distill, capsys: pytest.CaptureFixture[str]
) -> None:
    first = "1\tein mann .\n1\tein hund läuft jetzt .\n2\tzwei männer .\n3\t\n"
    second = "1\tder hund läuft weg\n2\tzwei männer sitzen .\n"
    distill(first, second)
    # An empty answer is none: the third source has its reference alone.
    assert read_lines("distilled.source.gz") == [*SOURCES, *SOURCES[:2]]
    assert read_lines("distilled.target.gz") == [*TARGETS, "ein hund läuft jetzt .", "zwei männer sitzen ."]
    assert "3 pairs, and answers to 2 sources, against their references BLEU " in capsys.readouterr().out


def test_of_answers_that_are_as_near_the_first_is_taken(distill: Distill) -> None:
    distill("2\tzwei frauen sitzen .\n2\tzwei kinder sitzen .\n")
    assert read_lines("distilled.target.gz")[3:] == ["zwei frauen sitzen ."]


@pytest.mark.parametrize("line", ["ein hund .", "4\tein hund .", "0\tein hund .", "-\tein hund ."])
def test_a_file_that_is_no_output_of_translate_is_refused(
    distill: Distill, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        distill(f"1\tein hund .\n{line}\n")
    assert ended.value.code == 2
    assert "answers_0.tsv:2: wanted the number of one of 3 sources" in capsys.readouterr().err
    assert not list(Path().glob("distilled*"))


def test_no_answers_are_refused(distill: Distill, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        distill("1\t\n")
    assert "Wanted an answer to any source in answers_0.tsv. Received: none." in capsys.readouterr().err


def test_other_numbers_of_lines_are_refused(distill: Distill, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        distill("1\tein hund .\n", targets=TARGETS[:2])
    assert "Wanted as many targets as sources. Received: 2, 3." in capsys.readouterr().err


def test_the_files_have_the_same_bytes_each_time(distill: Distill) -> None:
    contents = []
    for _ in range(2):
        distill("1\tein hund .\n")
        contents.append(Path("distilled.target.gz").read_bytes())
    assert contents[0] == contents[1]
