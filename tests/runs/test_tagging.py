"""A run from CoNLL files to a served tagger, from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.export import ServedTagger, served_kind
from keras_transformer.runs import Run, RunConfig
from trained_run import Command, flags

SMALL = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 16, "kind": "whitespace"}
SMALL |= {"max_length": 16, "tokens_per_batch": 64, "peak_learning_rate": 0.01, "dropout": 0.0}
PEOPLE, PLACES = ["Anna", "Ben", "Carla"], ["Oslo", "Rome", "Lima"]


def write_sentences(path: Path, num: int) -> Path:
    """Write sentences in which names tell their tags, as files of CoNLL have them."""
    draw = np.random.default_rng(num)
    lines = ["-DOCSTART- O", ""]
    for _ in range(num):
        person, place = draw.choice(PEOPLE), draw.choice(PLACES)
        lines += [f"{person} B-PER", "lives O", "in O", "New B-LOC", f"{place} I-LOC", ". O", ""]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.slow
def test_the_command_line_from_a_file_to_a_server(command: Command, tmp_path: Path) -> None:
    options = {"pairs": write_sentences(tmp_path / "train.conll", 300), "name": "names", **SMALL}
    test = write_sentences(tmp_path / "test.conll", 40)
    with test.open("a", encoding="utf-8") as file:
        file.write("Oslo O\n")
    result = command("train", "--task", "tag", *flags(epochs=4, test_pairs=test, **options))
    assert result.exit_code == 0, result.output
    report = json.loads(Path("runs/names/report.json").read_text(encoding="utf-8"))
    assert 0.97 < report["scores"]["span_f1"]["value"] < 1.0
    assert "Scores per label" in Path("runs/names/report.html").read_text(encoding="utf-8")

    for place in (["--model", "runs/names"], ["--saved-model", "saved_models/names"]):
        result = command("tag", *place, input="Ben lives in New Rome.\n\nAnna lives.\n")
        assert result.stdout.splitlines() == [
            *("Ben\tB-PER", "lives\tO", "in\tO", "New\tB-LOC", "Rome\tI-LOC", ".\tO"),
            *("", "", "Anna\tB-PER", "lives\tO", ".\tO"),
        ]
        result = command("tag", *place, "--spans", "Ben lives in New\tRome.")
        assert result.stdout.splitlines() == ["1\tPER\t0\t3\tBen", "1\tLOC\t13\t21\tNew Rome"]
        result = command("evaluate", *place, "--pairs", test)
        assert f"span F1          {100 * report['scores']['span_f1']['value']:.2f} %" in result.stdout
    # The export splits what its file of tokens does not.
    Path("dots.conll").write_text("Ben B-PER\nlives O\nin O\nU.S. B-LOC\n", encoding="utf-8")
    assert "outputs: 1" in command("evaluate", "--model", "runs/names", "--pairs", "dots.conll").stdout
    result = command("evaluate", "--saved-model", "saved_models/names", "--pairs", "dots.conll")
    assert result.exit_code == 2
    assert "must be the tokens of the texts" in result.stderr

    result = command("train", "--task", "tag", *flags(name="names", epochs=5), "--resume", "--no-export")
    assert result.exit_code == 0, result.output
    run = Run.open("runs/names")
    assert run.num_epochs == 5
    assert isinstance(run.task, kt.TextTagger)
    assert served_kind("saved_models/names") is ServedTagger
    # What was cut off counts as outside.
    short = run.task.with_changes(max_length=3, split_punctuation=False)
    with pytest.warns(kt.tasks.TruncationWarning):
        report, _ = run.kind.score(short, [(("Ben", "in", "New", "Rome"), ("B-PER", "O", "B-LOC", "I-LOC"))])
    assert report["token_accuracy"] == pytest.approx(0.5)


def test_what_is_no_file_of_tags_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"task='tag' needs tagged texts: --pairs FILE\. Received: none"):
        Run(RunConfig.default(task="tag")).train()
    path = tmp_path / "train.conll"
    path.write_text("Anna B-PER\nlives\n", encoding="utf-8")
    options = {"task": "tag", "pairs": str(path), "run_directory": str(tmp_path)}
    with pytest.raises(InputError, match=r"train\.conll:2: needs a token and a tag\. Received: 'lives'"):
        Run(RunConfig.default(**options)).train()
