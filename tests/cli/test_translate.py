"""Answers from a model directory and from an export."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from keras_transformer.text import CharacterTokenizer


def test_both_kinds_of_model_answer_alike(command: Callable, trained: Path) -> None:
    texts = ["w1ab", "", "w2ab"]
    answers = []
    for place in (["--model", "runs/tiny"], ["--saved-model", "saved_models/tiny"]):
        option, path = place
        lines = command("translate", option, trained / path, *texts, "--scores").stdout.splitlines()
        assert lines[1] == "0.0000\t"
        answers.append([line.split("\t") for line in lines])
    for (score, answer), (other_score, other_answer) in zip(*answers, strict=True):
        assert answer == other_answer
        assert float(score) == pytest.approx(float(other_score), abs=1e-3)


@pytest.mark.slow
def test_n_best_numbers_the_texts(command: Callable, trained: Path) -> None:
    model = ["--saved-model", trained / "saved_models/tiny"]
    best = command("translate", *model, "w1ab", "", "w2ab", "--scores").stdout.splitlines()
    lines = command("translate", *model, "w1ab", "", "w2ab", "--scores", "--n-best", "2").stdout.splitlines()
    rows = [line.split("\t", maxsplit=1) for line in lines]
    assert [number for number, _ in rows] == ["1", "1", "2", "3", "3"]
    assert [rows[i][1].split("\t")[1] for i in (0, 2, 3)] == [line.split("\t")[1] for line in best]
    without_scores = command("translate", *model, "w1ab", "--n-best", "1").stdout
    assert without_scores == "1\t" + best[0].split("\t")[1] + "\n"


@pytest.mark.slow
def test_the_search_of_a_model_can_be_changed(command: Callable, trained: Path) -> None:
    words = ["translate", "w1ab", "--n-best", "3", "--beam-size", "3", "--length-penalty", "0"]
    lines = command(*words, "--model", trained / "runs/tiny").stdout.splitlines()
    assert len(lines) == 3
    result = command(*words, "--saved-model", trained / "saved_models/tiny")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        "Error: An export has a fixed search: --beam-size and --length-penalty need --model. "
        "Received: --beam-size 3, --length-penalty 0.0."
    )


def test_more_answers_than_the_search_keeps(command: Callable, trained: Path) -> None:
    result = command("translate", "--model", trained / "runs/tiny", "w1ab", "--n-best", "3")
    assert result.exit_code == 2
    assert "between 1 and the 2 hypotheses" in result.stderr
    assert "num=3" in result.stderr


def test_an_export_that_is_not_whole(command: Callable, trained: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(trained / "saved_models/tiny", tmp_path / "half")
    shutil.rmtree(next(directory.glob("[0-9]*")) / "variables")
    for verb in (["translate", "text"], ["evaluate", "--pairs", trained / "pairs.tsv"]):
        result = command(*verb, "--saved-model", directory)
        assert result.exit_code == 2
        assert "is not a whole SavedModel: it has no variables/variables.index." in result.stderr


@pytest.mark.slow
def test_standard_input_and_a_file(command: Callable, trained: Path) -> None:
    Path("texts").write_text("w1ab\nw2ab\n", encoding="utf-8")
    model = ["--model", trained / "runs/tiny"]
    from_file = command("translate", *model, "--input", "texts").stdout
    assert command("translate", *model, input="w1ab\nw2ab\n").stdout == from_file
    assert len(from_file.splitlines()) == 2


@pytest.mark.slow
def test_a_byte_order_mark_is_no_text(command: Callable, trained: Path) -> None:
    model = ["--model", trained / "runs/tiny"]
    expected = command("translate", *model, "w1ab").stdout
    assert command("translate", *model, input=b"\xef\xbb\xbfw1ab\n").stdout == expected


def test_texts_and_a_file(command: Callable) -> None:
    result = command("translate", "w1ab", "--input", "texts")
    assert result.exit_code == 2
    assert "Give texts, --input or --frames. Received: 1 texts, --input texts." in result.stderr


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::keras_transformer.tasks.TruncationWarning")
def test_hard_texts_get_a_line_each(command: Callable, trained: Path) -> None:
    texts = ["", "\U0001f600", "שלום", "x" * 100_000, "w1ab"]
    output = command(
        "translate", "--saved-model", trained / "saved_models/tiny", input="\n".join(texts)
    ).stdout
    assert len(output.splitlines()) == len(texts)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--model", "none"], "none is not the directory of a model"),
        (["--saved-model", "none"], "none is not the directory of a SavedModel"),
        (["--model", "a", "--saved-model", "b"], "Received: a and b"),
        ([], "Name a model"),
    ],
)
def test_no_model(command: Callable, words: list[str], expected: str) -> None:
    result = command("translate", *words, "text")
    assert result.exit_code == 2
    assert expected in result.stderr.splitlines()[-1]


def test_invalid_utf8_on_standard_input_says_where(command: Callable, trained: Path) -> None:
    result = command("translate", "--model", trained / "runs/tiny", input=b"ok\nbad\xff\n")
    assert result.exit_code == 2
    assert "standard input:2:4: not valid UTF-8. Received: byte 0xff." in result.stderr


def test_a_vocabulary_that_does_not_fit(command: Callable, trained: Path, tmp_path: Path) -> None:
    model = shutil.copytree(trained / "runs/tiny", tmp_path / "model")
    CharacterTokenizer(["a", "b"]).save(model / "source_tokenizer")
    result = command("translate", "--model", model, "text")
    assert result.exit_code == 2
    assert (
        "source_tokenizer/tokenizer.json is damaged, half copied or of another model: its SHA-256"
        in result.stderr
    )
