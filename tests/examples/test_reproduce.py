"""The script of published results, on ten languages of a few words."""

import gzip
import json
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WORDS = {"bada": "b a d a", "dabe": "d a b e", "각": "k a k", "abed": "a b e d"}
RECIPE = """
[data]
source = "train.source"
target = "train.target"
validation_source = "test.source"
validation_target = "test.target"
[vocabulary]
kind = "character"
target_kind = "whitespace"
shared = false
[model]
num_encoder_layers = 1
num_decoder_layers = 1
hidden_dim = 8
num_heads = 2
intermediate_dim = 16
[training]
epochs = 1
"""


@pytest.fixture
def script(load_example: Callable[[str], Any]) -> Any:
    return load_example("recipes/reproduce")


def write_data(directory: Path, languages: tuple[str, ...]) -> None:
    directory.mkdir()
    rows = "".join(f"{word}\t{phones}\n" for word, phones in WORDS.items())
    for language in languages:
        (directory / f"{language}_test.words").write_text("bada\n각\n", encoding="utf-8")
        (directory / f"{language}_train.tsv").write_text(rows, encoding="utf-8")
        with gzip.open(directory / f"{language}_dev.tsv.gz", "wt", encoding="utf-8") as file:
            file.write(rows)


def test_files_that_a_recipe_reads(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_data(tmp_path / "data", script.LANGUAGES)
    monkeypatch.chdir(tmp_path)
    script.prepare_sigmorphon(tmp_path / "data")
    sources = Path("test.source").read_text(encoding="utf-8").splitlines()
    assert sources[:3] == ["arm bada", "arm dabe", f"arm {unicodedata.normalize('NFD', '각')}"]
    assert len(sources) == len(Path("train.target").read_text(encoding="utf-8").splitlines()) == 40


def test_files_of_one_language(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_data(tmp_path / "data", ("kor",))
    monkeypatch.chdir(tmp_path)
    script.prepare_sigmorphon(tmp_path / "data", languages=["kor"])
    assert Path("train.source").read_text(encoding="utf-8").splitlines()[0] == "bada"


def test_long_outputs_of_scan_test_a_model(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ["IN: jump twice OUT: I_JUMP I_JUMP", "IN: walk thrice OUT: I_WALK I_WALK I_WALK"]
    (tmp_path / "tasks.txt").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    script.prepare_scan(tmp_path, longest=2)
    assert Path("train.source").read_text(encoding="utf-8") == "jump twice\n"
    assert Path("test.target").read_text(encoding="utf-8") == "I_WALK I_WALK I_WALK\n"
    run = script.kt.runs.RunConfig.from_toml(script.HERE / "scan.toml")
    assert (run.model.changes["share_layers"], run.decoding.beam_size) == (True, 1)


def test_the_mean_is_that_of_the_languages(script: Any) -> None:
    pairs = (("a x", "1"), ("a y", "2"), ("b x", "3"))

    class Output:
        text = "1"

    # One of two words is wrong in the first language, all in the second.
    assert script.macro_word_error_rate(pairs, [Output] * 3) == 75.0
    assert script.word_error_rate(pairs, [Output] * 3) == pytest.approx(200 / 3)


@pytest.mark.slow
def test_a_finished_run_is_scored_again_but_not_trained(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_data(tmp_path / "data", script.LANGUAGES)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE, encoding="utf-8")
    small = script.sigmorphon(script.LANGUAGES)._replace(file=recipe)
    result = script.recipe_result("wrong words, %", "10.64", small)
    monkeypatch.setattr(script, "RESULTS", {"sigmorphon2021": result})
    words = ["sigmorphon2021", "--data", str(tmp_path / "data"), "--directory", str(tmp_path / "work")]
    words += ["--seeds", "1", "2", "--ensemble"]
    monkeypatch.setattr(sys, "argv", ["reproduce.py", *words, "--record", str(tmp_path / "records.jsonl")])
    report = tmp_path / "work/sigmorphon2021/runs/sigmorphon2021_1/report.json"
    written = []
    for _ in range(2):
        monkeypatch.chdir(tmp_path)
        script.main()
        written.append(report.stat().st_mtime_ns)
    assert written[0] == written[1]
    lines = (tmp_path / "records.jsonl").read_text(encoding="utf-8").splitlines()
    first, second, both, *again = map(json.loads, lines)
    assert again == [first, second, both]
    assert (first["seed"], second["seed"], both["seed"]) == (1, 2, "1, 2")
    assert both["result"] == "sigmorphon2021_ensemble"
    assert both["parameters"] == 2 * first["parameters"] > 0
    for outputs in ("outputs_1", "outputs_2", "outputs_ensemble"):
        path = tmp_path / "work/sigmorphon2021" / outputs / "kor.tsv"
        assert [line.split("\t")[0] for line in path.read_text(encoding="utf-8").splitlines()] == [
            "bada",
            "각",
        ]
