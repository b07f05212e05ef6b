"""`keras-transformer import`, and what the other verbs do with its directory."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from keras_transformer_cli import main
from pretrained_models import CORPUS, save_translator, save_whisper


def run(*words: object) -> str:
    """Run the program; return what it printed, which must not be an error."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*words: object) -> str:
    """Run the program; return its only line, an error of the user's."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    target = tmp_path / "runs" / "a"
    assert "config.json" in refused("import", tmp_path / "hub", target)
    (tmp_path / "hub" / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    assert "Received: 'gpt2'" in refused("import", tmp_path / "hub", target)
    assert not target.parent.exists()
    assert "it already exists" in refused("import", tmp_path / "hub", tmp_path / "hub")


@pytest.mark.backend
def test_the_first_example_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name on the hub, whose files are as those of OPUS-MT are: old flags, a pickle of before torch 1.6."""
    monkeypatch.chdir(tmp_path)
    torch, safetensors = pytest.importorskip("torch"), pytest.importorskip("safetensors.torch")
    save_translator("marian", tmp_path / "hub", num_beams=2, max_length=12, renormalize_logits=True)
    weights = safetensors.load_file("hub/model.safetensors")
    Path("hub/model.safetensors").unlink()
    torch.save(weights, "hub/pytorch_model.bin", _use_new_zipfile_serialization=False)
    (tmp_path / "hub" / "tf_model.h5").write_bytes(b"another form")
    hub = SimpleNamespace(snapshot_download=lambda name, **_: str(tmp_path / "hub"))
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    result = CliRunner().invoke(main, ["import", "Helsinki-NLP/opus-mt-de-en", "runs/de_en"])
    assert (result.exit_code, result.stdout) == (0, "runs/de_en\n")
    [line] = result.stderr.splitlines()
    assert line.endswith(
        "generation_config.json: left out, since outputs do not depend on it: renormalize_logits=True"
    )
    assert run("translate", "--model", "runs/de_en", "Ein Hund läuft.").count("\n") == 1


@pytest.mark.backend
def test_a_search_and_a_revision_can_be_chosen(tmp_path: Path) -> None:
    save_translator("m2m100", tmp_path / "hub", num_beams=2, num_beam_groups=2)
    languages = ("--source-language", "de", "--target-language", "en")
    message = refused("import", tmp_path / "hub", tmp_path / "run", *languages)
    assert "`num_beam_groups` must be 1" in message
    assert "`--beam-size 4` on the command line. Received: 2" in message
    assert "has revisions" in refused("import", tmp_path / "hub", tmp_path / "run", "--revision", "v1")
    run("import", tmp_path / "hub", tmp_path / "run", *languages, "--beam-size", 3)
    search = json.loads((tmp_path / "run" / "translator.json").read_text())["search"]
    assert search["beam_size"] == 3
    # An output still begins with its language.
    assert len(search["constraints"]["first_token_ids"]) == 1


@pytest.mark.slow
@pytest.mark.backend
def test_the_directory_is_one_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_translator("marian", tmp_path / "hub", num_beams=2, max_length=16)
    assert run("import", "hub", "runs/first") == "runs/first\n"
    [output] = run("translate", "--model", "runs/first", CORPUS[0]).splitlines()
    Path("pairs.tsv").write_text("".join(f"{text}\t{text}\n" for text in CORPUS), encoding="utf-8")
    assert "BLEU" in run("evaluate", "--model", "runs/first", "--pairs", "pairs.tsv")
    run("plot", "attention", "--model", "runs/first", CORPUS[0])
    [version] = run("export", "runs/first", "saved", "--example", CORPUS[0]).splitlines()
    assert run("translate", "--saved-model", version, CORPUS[0]) == f"{output}\n"
    options = ("--epochs", 2, "--peak-learning-rate", 0.01, "--name", "second")
    run("train", "--initial-model", "runs/first", "--pairs", "pairs.tsv", *options)
    losses = Path("runs/second/training.csv").read_text().splitlines()
    place = losses[0].split(",").index("loss")
    assert float(losses[2].split(",")[place]) < float(losses[1].split(",")[place])
    # The rules of its search came along.
    options = [json.loads(Path("runs", name, "translator.json").read_text()) for name in ("first", "second")]
    names = ("constraints", "length_normalization", "special_ids")
    first, second = ({name: each["search"][name] for name in names} for each in options)
    assert first == second


@pytest.mark.slow
@pytest.mark.backend
def test_a_model_of_audio_is_imported_and_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_whisper(tmp_path / "hub")
    run("import", "hub", "runs/whisper", "--source-language", "de")
    assert run("export", "runs/whisper", "saved").splitlines() == ["saved/1"]
    assert "that read texts. Received: 'Hallo'" in refused(
        "export", "runs/whisper", "saved", "--example", "Hallo"
    )
    for flag, path in (("--model", "runs/whisper"), ("--saved-model", "saved/1")):
        assert "Received: a model that reads audio." in refused("translate", flag, path, "Hallo")
    Path("pairs.tsv").write_text("".join(f"{text}\t{text}\n" for text in CORPUS), encoding="utf-8")
    words = ("train", "--initial-model", "runs/whisper", "--pairs", "pairs.tsv", "--name", "second")
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.stderr.splitlines()[-1][-42:]) == (
        2,
        "Received: runs/whisper, which reads audio.",
    )
