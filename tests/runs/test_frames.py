"""A run from files of frames to strings, from Python and from the command line."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer_cli import main

COLORS = ["red", "green", "blue"]
OPTIONS = {"hidden_dim": 16, "num_encoder_layers": 1, "num_decoder_layers": 1, "intermediate_dim": 16}


def make_pairs(count: int, seed: int) -> list[tuple[np.ndarray, str]]:
    """Frames in which one of three channels is high at a time, and the names of these."""
    generator, pairs = np.random.default_rng(seed), []
    for _ in range(count):
        chosen = generator.integers(3, size=generator.integers(1, 4))
        parts = [np.repeat(np.eye(4, 3)[[number, 3]], generator.integers(2, 5), axis=0) for number in chosen]
        frames = 30 * np.concatenate(parts) + generator.normal(5, 0.1, (sum(map(len, parts)), 3))
        pairs.append((frames.astype("float32"), " ".join(COLORS[number] for number in chosen)))
    return pairs


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("frames")
    training, test = make_pairs(300, 0), make_pairs(20, 1)
    np.savez(directory / "train.npz", *[x for x, _ in training], targets=np.array([y for _, y in training]))
    (directory / "test").mkdir()
    for number, (frames, _) in enumerate(test):
        np.save(directory / "test" / f"w{number:02}.npy", frames)
    lines = "".join(f"w{number:02}.npy\t{target}\n" for number, (_, target) in enumerate(test))
    (directory / "test.tsv").write_text(lines, encoding="utf-8")
    return directory


def make_run(files: Path, directory: Path, **options: object) -> kt.Run:
    places = {"run_directory": str(directory / "runs"), "export_directory": str(directory / "saved_models")}
    data = {
        "frames": str(files / "train.npz"),
        "test_frames": str(files / "test"),
        "test_targets": str(files / "test.tsv"),
    }
    config = kt.runs.RunConfig.default(task="frames", name="colors", **places, **data, **OPTIONS, **options)
    return kt.Run(config)


def test_examples_are_read_held_out_and_shown(files: Path, tmp_path: Path) -> None:
    run = make_run(files, tmp_path)
    data = run.data
    assert [len(part) for part in (data.train, data.validation, data.test)] == [285, 15, 20]
    again = make_run(files, tmp_path).data
    assert run.kind.fingerprint(data.train) == run.kind.fingerprint(again.train)
    assert run.kind.fingerprint(data.train) != run.kind.fingerprint(data.train[::-1])
    frames, target = data.train[0]
    assert run.kind.describe(data.train[0]) == f"{len(frames)} frames of 3  →  {target}"


def test_options_of_frames_are_refused_elsewhere(files: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`frames` is an option of task='frames'"):
        kt.runs.RunConfig.default(frames="x.npz")
    with pytest.raises(InputError, match=r"needs frames: --frames DIRECTORY\. Received: none"):
        kt.Run(kt.runs.RunConfig.default(task="frames")).train()
    with pytest.raises(InputError, match="No pair is left to train on"):
        _ = make_run(files, tmp_path, validation_fraction=0.999).data


@pytest.mark.slow
def test_a_run_is_trained_scored_exported_and_asked_again(files: Path, tmp_path: Path) -> None:
    run = make_run(files, tmp_path, epochs=2)
    report = run.train(verbose=0)
    assert report.num_items == 20
    assert run.translator.model.config.source_convolutions
    page = (run.directory / "report.html").read_text(encoding="utf-8")
    assert "frames of 3" in page
    assert "--frames" in page
    opened = kt.Run.open(run.directory)
    assert opened.evaluate()["exact_match"] == report["exact_match"]
    version = run.export()
    windows = [frames for frames, _ in run.data.test]
    wanted = [output.text for output in run.outputs]
    assert kt.export.ServedModel(version).translate(windows) == wanted
    invoke = CliRunner().invoke
    asked = invoke(main, ["translate", "--saved-model", str(version), "--frames", str(files / "test")])
    assert asked.stdout.splitlines() == wanted
    of_frames = ["--frames", str(files / "test"), "--targets", str(files / "test.tsv")]
    assert "outputs: 20" in invoke(main, ["evaluate", "--model", str(run.directory), *of_frames]).stdout
    assert invoke(main, ["translate", "--model", str(run.directory), "a text"]).exit_code == 2
    more = kt.Run.open(run.directory, epochs=3)
    assert more.train(resume=True, verbose=0).num_items == 20
    assert more.num_epochs == 3


@pytest.mark.slow
def test_a_run_from_the_command_line(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = ["--frames", str(files / "train.npz"), "--test-frames", str(files / "test")]
    sizes = [f"--{name.replace('_', '-')}={value}" for name, value in OPTIONS.items()]
    arguments = ["train", "--task", "frames", *data, "--test-targets", str(files / "test.tsv"), *sizes]
    result = CliRunner().invoke(
        main, [*arguments, "--epochs", "1", "--name", "colors", "--no-source-convolutions", "--no-export"]
    )
    assert result.exit_code == 0, result.output
    assert "outputs: 20" in result.stdout
    translator = kt.Translator.load("runs/colors")
    assert not translator.model.config.source_convolutions
    assert translator.translate(np.zeros((0, 3))) == ""
