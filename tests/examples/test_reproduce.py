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


def test_commands_with_invented_verbs_and_none_with_jump(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ["IN: jump OUT: I_JUMP", "IN: walk and turn left OUT: I_WALK I_TURN_LEFT"]
    (tmp_path / "tasks_train_addprim_jump.txt").write_text("\n".join(rows), encoding="utf-8")
    (tmp_path / "tasks_test_addprim_jump.txt").write_text(
        "IN: jump twice OUT: I_JUMP I_JUMP", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    script.prepare_scan_jump(tmp_path, num_verbs=1)
    sources, targets = (
        Path(f"train.{side}").read_text("utf-8").splitlines() for side in ("source", "target")
    )
    pairs = [*zip(sources, targets, strict=True)]
    jump, walk = ("jump", "I_JUMP"), ("walk and turn left", "I_WALK I_TURN_LEFT")
    changed, alone = ("verb0 and turn left", "I_VERB0 I_TURN_LEFT"), ("verb0", "I_VERB0")
    assert pairs == [jump, alone, walk, changed, *[jump, alone] * 19]
    assert Path("test.source").read_text(encoding="utf-8") == "jump twice\n"
    script.prepare_scan_jump(tmp_path, num_verbs=0)
    assert len(Path("train.source").read_text(encoding="utf-8").splitlines()) == 2


def test_the_mean_is_that_of_the_languages(script: Any) -> None:
    pairs = (("a x", "1"), ("a y", "2"), ("b x", "3"))

    class Output:
        text = "1"

    # One of two words is wrong in the first language, all in the second.
    assert script.macro_word_error_rate(pairs, [Output] * 3) == 75.0
    assert script.word_error_rate(pairs, [Output] * 3) == pytest.approx(200 / 3)
    # A word that may be pronounced in two ways is one word.
    assert script.word_error_rate([*pairs, ("a y", "1")], [Output] * 4) == pytest.approx(100 / 3)


def test_each_pronunciation_of_a_word_has_a_line(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.tsv").write_text("AAA\tT R\n", encoding="utf-8")
    with gzip.open(tmp_path / "test.tsv.gz", "wt", encoding="utf-8") as file:
        file.write("EITHER\tIY DH\tAY DH\n")
    monkeypatch.chdir(tmp_path)
    script.prepare_cmudict(tmp_path)
    assert Path("test.source").read_text(encoding="utf-8") == "EITHER\nEITHER\n"
    assert Path("test.target").read_text(encoding="utf-8") == "IY DH\nAY DH\n"


@pytest.mark.slow
def test_a_seed_learns_from_translations(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    for split in ("train", "val", "test_2016_flickr"):
        for language, text in (("en", "a dog runs .\na red car .\n"), ("fr", "un chien court .\nrouge .\n")):
            path = tmp_path / "data" / f"{split}.lc.norm.tok.{language}"
            path.write_text(text, encoding="utf-8")
    for name in ("multi30k", "multi30k_distilled"):
        text = (script.HERE / f"{name}.toml").read_text(encoding="utf-8")
        small = {'preset = "tiny"': RECIPE[RECIPE.index("num_encoder") : RECIPE.index("[training]")]}
        small |= {"size = 6000": "size = 40", "average_last = 8": "average_last = 1", "average_last = 6": ""}
        for full, less in small.items():
            text = text.replace(full, less)
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(script, "HERE", tmp_path)
    monkeypatch.chdir(tmp_path)
    short = script.Distillation("fr", num_epochs=[1, 1], num_first_epochs=1)
    monkeypatch.setitem(script.RESULTS, "x", script.Result("BLEU", "61.8", short))
    [record] = script.reproduce("x", tmp_path / "data", [2])
    assert (record["seed"], record["measure"]) == (2, "BLEU")
    assert script.read_lines("distilled_2.target.gz")[:2] == ["un chien court .", "rouge ."]
    config = script.kt.Run.open("runs/multi30k_distilled_2").config
    assert config.data.target == "distilled_2.target.gz"
    assert config.model.initial_model == "runs/multi30k_2"
    # The second time both models are teachers.
    config = script.kt.Run.open("runs/multi30k_distilled_2_again").config
    assert config.data.target == "distilled_2_again.target.gz"
    assert config.model.initial_model == "runs/multi30k_distilled_2"
    assert {path.name for path in tmp_path.glob("*.answers.gz")} == {
        "multi30k_2.answers.gz",
        "multi30k_distilled_2.answers.gz",
    }


@pytest.mark.slow
def test_a_finished_run_is_scored_again_but_not_trained(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_data(tmp_path / "data", script.LANGUAGES)
    monkeypatch.setattr(script, "HERE", tmp_path)
    (tmp_path / "sigmorphon2021.toml").write_text(RECIPE, encoding="utf-8")
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
