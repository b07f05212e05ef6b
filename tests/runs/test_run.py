"""Training, going on after a stop, beginning with an earlier model, and what is done with the translator."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.training import Checkpoint, RDropCrossentropy
from trained_run import SMALL

RECIPE = {
    "epochs": 3,
    "monitor": "exact_match",
    "monitored_pairs": 1,
    "patience": 2,
    "average_last": 2,
    "ema_momentum": 0.9,
    "r_drop": 5.0,
    "clip_norm": 1.0,
    "gradient_accumulation_steps": 2,
    "tokens_per_batch": 64,
    "beam_size": 1,
    "precision": "mixed_bfloat16",
}


def small_run(pairs_file: Path, **options: Any) -> kt.Run:
    """Make a run of forty pairs next to their file."""
    place = {"run_directory": str(pairs_file.parent / "runs")}
    return kt.Run(kt.runs.RunConfig.default(pairs=str(pairs_file), **{**SMALL, **place, **options}))


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    """The directory of a run that may go on."""
    return Path(shutil.copytree(trained / "runs/tiny", tmp_path / "runs/tiny"))


def test_a_finished_run_is_opened_from_its_directory(trained: Path, tmp_path: Path) -> None:
    run = kt.Run.open(trained / "runs/tiny")
    assert run.directory == trained / "runs/tiny"
    assert run.num_epochs == 1
    assert run.config.chosen == {"tokens_per_batch": 512, "epochs": 1, "warmup_steps": 1}
    [output] = run.translator.translate(["w1ab"])
    assert run.evaluate([("w1ab", output)])["exact_match"] == 1.0
    assert run.evaluate([("w1ab", "no"), ("w1ab", output)], unique=True).num_items == 1


def test_the_current_directory_is_opened(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(copy)
    assert kt.Run.open(".").directory == copy
    with pytest.raises(InputError, match=r"A run keeps its task\. Received: task='tag'; .* 'translate'"):
        kt.Run.open(".", task="tag")


def test_by_default_the_loss_chooses_and_nothing_is_averaged(trained: Path) -> None:
    checkpoint = Checkpoint(trained / "runs/tiny")
    assert (checkpoint.monitor, checkpoint.best_epoch) == ("val_loss", 1)
    assert not checkpoint.load_model().optimizer.use_ema


def check_compiled(model: Any) -> None:
    """Look at what a model is trained with."""
    assert isinstance(model.loss, RDropCrossentropy)
    assert (model.loss.weight, model.loss.normalize) == (5.0, True)
    optimizer = model.optimizer
    assert (optimizer.global_clipnorm, optimizer.ema_momentum, optimizer.use_ema) == (1.0, 0.9, True)
    assert optimizer.gradient_accumulation_steps == 2


@pytest.mark.slow
def test_every_option_of_the_recipe_at_once(pairs_file: Path) -> None:
    run = small_run(pairs_file, **RECIPE)
    run.train(verbose=0)
    checkpoint = Checkpoint(run.directory)
    # The untrained model is never right: the first epoch stays the best, and the run stops after two more.
    assert (checkpoint.epoch, checkpoint.best_epoch) == (3, 1)
    kept = sorted(path.name for path in run.directory.glob("checkpoints/*.keras"))
    assert kept == ["epoch-0001.keras", "epoch-0002.keras", "epoch-0003.keras"]
    with (run.directory / "training.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3
    assert all(float(row["tokens_per_second"]) > 0 and 0 <= float(row["padding"]) < 1 for row in rows)
    model = checkpoint.load_model()
    check_compiled(model)
    assert model.get_config()["dtype"]["config"]["name"] == "mixed_bfloat16"
    assert run.translator.model.get_config()["dtype"]["config"]["name"] == "float32"
    config = json.loads((run.directory / "config.json").read_text(encoding="utf-8"))
    assert config["training"]["monitor"] == "exact_match"


def test_choices_of_a_file_reach_the_model(
    pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = []

    def stop(model: Any, *arguments: Any, **options: Any) -> None:
        models.append(model)
        raise KeyboardInterrupt

    monkeypatch.setattr(keras.Model, "fit", stop)
    choices = {"positions": "rotary", "normalization": "rms", "gated": True, "num_key_value_heads": 1}
    lines = [f"{name} = {json.dumps(value)}" for name, value in choices.items()]
    path = tmp_path / "choices.toml"
    path.write_text("\n".join([f"run_directory = '{tmp_path}'", "[model]", *lines]), encoding="utf-8")
    run = kt.Run.from_toml(path, pairs=str(pairs_file), positions="relative", **SMALL)
    with pytest.raises(KeyboardInterrupt):
        run.train()
    config = models[0].config
    assert {name: getattr(config, name) for name in choices} == {**choices, "positions": "relative"}
    assert run.num_epochs == 0


def test_what_is_not_given_follows_the_corpus(
    pairs_file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    models = []

    def stop(model: Any, *arguments: Any, **options: Any) -> None:
        models.append(model)
        raise KeyboardInterrupt

    monkeypatch.setattr(keras.Model, "fit", stop)
    place = {
        "run_directory": str(pairs_file.parent / "runs"),
        "positions": "learned",
        "max_source_length": 20,
    }
    options = {**{name: value for name, value in SMALL.items() if name != "epochs"}, **place}
    run = kt.Run(kt.runs.RunConfig.default(pairs=str(pairs_file), **options))
    with caplog.at_level("INFO"), pytest.raises(KeyboardInterrupt):
        run.train()
    assert run.config.chosen == {"tokens_per_batch": 512, "epochs": 100, "warmup_steps": 20}
    assert "training tokens: tokens_per_batch=512, epochs=100, warmup_steps=20" in caplog.text
    assert models[0].config.max_length == 20


@pytest.mark.slow
def test_a_short_run_averages_half_of_its_epochs(pairs_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        run = small_run(pairs_file, average_last=8, split_texts="none")
        run.train(verbose=0)
    assert kt.Translator.load(run.directory).split_texts == "none"
    assert "averaging the last 1 of 1 epochs; average_last=8 is more than half of them" in caplog.messages
    assert "The saved model has the weights of epoch 1." in (run.directory / "report.html").read_text("utf-8")


def test_a_run_is_not_overwritten_by_accident(pairs_file: Path, copy: Path) -> None:
    with pytest.raises(InputError, match="holds a run already"):
        small_run(pairs_file, name="tiny").train()
    assert kt.Run.open(copy).num_epochs == 1


@pytest.mark.slow
def test_a_run_goes_on_after_its_last_epoch(copy: Path) -> None:
    epochs: list[int] = []
    run = kt.Run.open(copy, epochs=2)
    run.train(
        resume=True,
        verbose=0,
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: epochs.append(epoch))],
    )
    checkpoint = Checkpoint(copy)
    assert (epochs, checkpoint.epoch, len(checkpoint.history["loss"])) == ([1], 2, 2)
    assert kt.Run.open(copy).config.training.epochs == 2


def test_a_run_does_not_go_on_with_another_recipe(copy: Path) -> None:
    with pytest.raises(InputError, match=r"training\.peak_learning_rate=0\.5 after 0\.001"):
        kt.Run.open(copy, peak_learning_rate=0.5).train(resume=True)


@pytest.mark.slow
def test_all_devices_are_asked_for(pairs_file: Path) -> None:
    run = small_run(pairs_file, distribute="mirrored")
    run.train(verbose=0)
    assert kt.Run.open(run.directory).num_epochs == 1


def test_an_engine_of_another_backend_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    config = kt.runs.RunConfig.default(pairs="missing.tsv", distribute="data_parallel")
    with pytest.raises(InputError, match="data_parallel is an engine of the jax backend"):
        kt.Run(config).train()


@pytest.mark.slow
def test_a_run_claims_the_cores_in_time(pairs_file: Path) -> None:
    options = {**SMALL, "pairs": str(pairs_file), "distribute": "cores"}
    program = f"import keras_transformer as kt; kt.Run(kt.runs.RunConfig.default(**{options})).train()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", program]
    done = subprocess.run(
        words, cwd=pairs_file.parent, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert kt.Run.open(pairs_file.parent / "runs/model").translator.translate(["w1ab"])


@pytest.mark.slow
def test_a_loss_that_is_no_number_stops_the_run(copy: Path) -> None:
    class LoseWeights(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            for variable in self.model.trainable_variables:
                variable.assign(np.full(variable.shape, np.nan))

    before = {path.name: path.read_bytes() for path in (copy / "checkpoints").iterdir()}
    message = r"The loss must be finite\. Received: loss=nan after batch 1 of epoch 2, step "
    with pytest.raises(InputError, match=message):
        kt.Run.open(copy, epochs=2).train(resume=True, verbose=0, callbacks=[LoseWeights()])
    assert {path.name: path.read_bytes() for path in (copy / "checkpoints").iterdir()} == before


@pytest.mark.parametrize("deterministic", [False, True])
def test_tensorflow_is_told_to_be_deterministic(
    deterministic: bool, pairs_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told in earnest it would stay so for all tests of this process."""

    def stop(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    told: list[bool] = []
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", lambda: told.append(True))
    monkeypatch.setattr(keras.Model, "fit", stop)
    with pytest.raises(KeyboardInterrupt):
        small_run(pairs_file, deterministic=deterministic).train()
    assert told == [True] * deterministic


@pytest.mark.slow
def test_a_full_disk_leaves_the_last_checkpoint(pairs_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = keras.Model.save

    def failing_save(self: Any, path: Path, *arguments: Any, **options: Any) -> None:
        if "0002" not in str(path):
            save(self, path, *arguments, **options)
            return
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(keras.Model, "save", failing_save)
    run = small_run(pairs_file, epochs=3)
    with pytest.raises((OSError, InputError), match="No space left on device"):
        run.train(verbose=0)
    assert run.num_epochs == 1
    kept = sorted(path.name for path in (run.directory / "checkpoints").iterdir())
    assert kept == ["epoch-0001.keras", "state.json"]


@pytest.fixture
def earlier(trained: Path) -> str:
    """The directory of a run of a model 8 wide, without dropout but for the preset's."""
    return str(trained / "runs/tiny")


@pytest.mark.slow
def test_a_run_begins_where_the_earlier_one_stands(pairs_file: Path, earlier: str) -> None:
    options = {"name": "further", "initial_model": earlier, "dropout": 0.45, "peak_learning_rate": 1e-9}
    run = kt.Run(
        kt.runs.RunConfig.default(
            pairs=str(pairs_file), run_directory=str(pairs_file.parent), epochs=1, **options
        )
    )
    run.train(verbose=0)
    before = kt.Translator.load(earlier)
    assert (before.model.config.dropout, run.translator.model.config.dropout) == (0.1, 0.45)
    assert run.translator.source_tokenizer.fingerprint() == before.source_tokenizer.fingerprint()
    assert run.translator.target_tokenizer.fingerprint() == before.target_tokenizer.fingerprint()
    for weight, same in zip(run.translator.model.get_weights(), before.model.get_weights(), strict=True):
        np.testing.assert_allclose(weight, same, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"hidden_dim": 16, "num_encoder_layers": 1, "norm_first": True},
            r"Received: hidden_dim=16 where the model has 8, norm_first=True where the model has False\.$",
        ),
        ({"subword_dropout": 0.1}, r"subword_dropout=0\.1, .*CharacterTokenizer and CharacterTokenizer"),
        ({"initial_model": "runs/absent"}, "runs/absent is not the directory of a model"),
        ({"size": 8}, r"own vocabularies\. Received: size=8 where the model has \d+ and \d+\."),
        # Defaults that were given.
        ({"preset": "tiny"}, "hidden_dim=128 where the model has 8, num_heads=4 where the model has 2"),
        ({"normalization_rule": "nmt_nfkc"}, r"normalization_rule='nmt_nfkc' where the model has None"),
    ],
)
def test_what_an_earlier_model_is_not(
    options: dict[str, Any], message: str, pairs_file: Path, earlier: str
) -> None:
    place = {"run_directory": str(pairs_file.parent), "initial_model": earlier}
    run = kt.Run(kt.runs.RunConfig.default(pairs=str(pairs_file), **{**place, **options}))
    with pytest.raises(InputError, match=message):
        run.train()
    assert run.num_epochs == 0


def test_an_earlier_model_that_cannot_be_continued(pairs_file: Path, tmp_path: Path) -> None:
    tokenizer = kt.text.CharacterTokenizer.train(["ab"])
    model = kt.Transformer(6, 6, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8)
    kt.Translator(model, tokenizer, tokenizer).save(tmp_path / "earlier")
    options = {"run_directory": str(tmp_path), "initial_model": str(tmp_path / "earlier"), "shared": False}
    run = kt.Run(kt.runs.RunConfig.default(pairs=str(pairs_file), **options))
    with pytest.raises(InputError, match=r"Received: shared=False where the model has True\."):
        run.train()
    model.quantize("int8")
    kt.Translator(model, tokenizer, tokenizer).save(tmp_path / "earlier")
    run = kt.Run(kt.runs.RunConfig.default(pairs=str(pairs_file), **{**options, "shared": True}))
    with pytest.raises(InputError, match=r"earlier holds a quantized model, which cannot be trained\."):
        run.train()


@pytest.mark.slow
def test_as_many_key_value_heads_as_heads_are_the_earlier_architecture(
    pairs_file: Path, earlier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = []

    def stop(model: Any, *arguments: Any, **options: Any) -> None:
        models.append(model)
        raise KeyboardInterrupt

    monkeypatch.setattr(keras.Model, "fit", stop)
    options = {
        "initial_model": earlier,
        "num_heads": 2,
        "num_key_value_heads": 2,
        "precision": "mixed_bfloat16",
    }
    place = {"run_directory": str(pairs_file.parent)}
    with pytest.raises(KeyboardInterrupt):
        kt.Run(kt.runs.RunConfig.default(pairs=str(pairs_file), **place, **options)).train()
    assert models[0].get_config()["dtype"]["config"]["name"] == "mixed_bfloat16"
    before = kt.Translator.load(earlier).model
    for weight, same in zip(models[0].get_weights(), before.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, same)
