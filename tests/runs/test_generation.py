"""A run that writes on: from files of texts to a generator that is saved, opened and exported."""

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.runs import Run, RunConfig
from keras_transformer.runs.directory import content
from keras_transformer.runs.generation import GenerationRun
from keras_transformer_cli import main
from trained_run import flags

SIZES = {"hidden_dim": 8, "num_heads": 2, "intermediate_dim": 8, "num_layers": 1}
OPTIONS = {"task": "generate", "kind": "character", "epochs": 2, "max_length": 24, "num_samples": 2, **SIZES}
PROMPTS = ["the d", "", "it s"]


def write_texts(directory: Path) -> Path:
    path = directory / "texts.txt"
    path.write_text("".join(f"the dog saw {number} cats\nit sat\n" for number in range(20)), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def generated(made_once: Callable[[Callable[[Path], object]], Path]) -> Path:
    """A directory in which `train --task generate` has run."""
    return made_once(_train)


def _train(directory: Path) -> None:
    places = {"run_directory": directory / "runs", "export_directory": directory / "saved_models"}
    options = {"texts": write_texts(directory), "name": "tales", **places, **OPTIONS}
    result = CliRunner().invoke(main, ["train", *flags(**options)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    (directory / "output.txt").write_text(result.stdout, encoding="utf-8")


@pytest.mark.slow
def test_it_writes_what_is_listed_and_reports_perplexity(generated: Path) -> None:
    directory = generated / "runs/tales"
    assert {path.name for path in directory.iterdir()} == set(content([GenerationRun]))
    report = json.loads((directory / "report.json").read_text(encoding="utf-8"))
    assert report["scores"].keys() == {"perplexity", "bits_per_character"}
    assert Run.examples(directory) == tuple(report["examples"])
    output = (generated / "output.txt").read_text(encoding="utf-8")
    for part in (
        "perplexity",
        "bits per character",
        "continued (score",
        "keras-transformer generate --saved",
    ):
        assert part in output
    page = (directory / "report.html").read_text(encoding="utf-8")
    for part in ("<dt>prompt</dt>", "text vocabulary", ".task.generate(", "training texts, in tokens"):
        assert part in page


@pytest.mark.slow
def test_it_is_opened_and_scored_again(generated: Path) -> None:
    run = Run.open(generated / "runs/tales", texts=str(generated / "texts.txt"))
    assert isinstance(run.task, kt.TextGenerator)
    wanted = kt.decoding.SampleSearch(0.8, top_p=0.95, num_samples=2, seed=0)
    assert run.task.search == dataclasses.replace(wanted, special_ids=kt.text.SPECIAL_IDS)
    report = json.loads((generated / "runs/tales/report.json").read_text(encoding="utf-8"))
    assert run.evaluate()["perplexity"] == pytest.approx(report["scores"]["perplexity"]["value"], rel=1e-5)
    with pytest.raises(InputError, match=r"Received: a run with task='generate'"):
        _ = run.translator
    assert type(kt.tasks.ModelTask.load(generated / "runs/tales")) is kt.TextGenerator


# Neither Keras nor this package: the client of a program that knows TensorFlow alone.
CLIENT = """
import json, sys
for name in ("keras", "keras_transformer", "tensorflow_text"):
    sys.modules[name] = None  # an import is an error
import tensorflow as tf

search = tf.saved_model.load(sys.argv[1]).signatures["search"]
prompts = json.loads(sys.argv[2])
own = tf.fill([len(prompts)], -1)
found = search(
    text=tf.constant(prompts), seed=tf.range(len(prompts)),
    max_length=own, length_penalty=tf.cast(own, tf.float32), num_hypotheses=own,
)
print(json.dumps([[text.decode() for text in row] for row in found["output"].numpy().tolist()]))
"""


@pytest.mark.slow
def test_a_client_gets_the_samples_of_python(generated: Path) -> None:
    version = generated / "saved_models/tales/1"
    words = [sys.executable, "-c", CLIENT, str(version), json.dumps(PROMPTS)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wanted = [[each.text for each in row] for row in Run.open(generated / "runs/tales").task.n_best(PROMPTS)]
    assert json.loads(done.stdout.splitlines()[-1]) == wanted
    served = kt.export.ServedModel(version)
    assert [[each.text for each in row] for row in served.search(PROMPTS, batch_size=2)] == wanted
    [[shorter]] = served.search(PROMPTS[:1], 1, max_length=8)
    assert wanted[0][0].startswith("the d")
    assert len(shorter.text) < 8
    others = [row[0].text for row in served.search(["the d"] * 8, 1, seed=5)]
    assert others[:4] == [row[0].text for row in served.search(["the d"] * 4, 1, seed=5)]
    assert others[1:] == [row[0].text for row in served.search(["the d"] * 7, 1, seed=6)]


@pytest.mark.slow
def test_a_resumed_run_ends_in_the_same_bits(tmp_path: Path) -> None:
    options = {**OPTIONS, "texts": str(write_texts(tmp_path)), "run_directory": str(tmp_path / "runs")}
    options |= {"deterministic": True, "warmup_steps": 3, "tokens_per_batch": 64, "packed": True}

    def train(name: str, *epochs: int) -> list[np.ndarray]:
        for number, total in enumerate(epochs):
            run = Run(RunConfig.default(**{**options, "name": name, "epochs": total}))
            run.train(resume=number > 0, verbose=0)
        weights: list[np.ndarray] = run.task.model.get_weights()
        return weights

    assert all(map(np.array_equal, train("resumed", 1, 3), train("whole", 3)))
    whole = str(tmp_path / "runs/whole")
    run = Run(RunConfig.default(**{**options, "name": "further", "initial_model": whole}))
    run.train(verbose=0)
    assert run.task.tokenizer.fingerprint() == kt.TextGenerator.load(whole).tokenizer.fingerprint()


@pytest.mark.slow
def test_a_run_of_another_task_is_replaced_whole(generated: Path, tmp_path: Path) -> None:
    shutil.copytree(generated / "runs/tales", tmp_path / "tales")
    (tmp_path / "pairs.tsv").write_text("".join(f"w{n}\tW{n}\n" for n in range(30)))
    sizes = {"hidden_dim": 8, "num_heads": 2, "intermediate_dim": 8}
    sizes |= {"num_encoder_layers": 1, "num_decoder_layers": 1}
    options = {"pairs": str(tmp_path / "pairs.tsv"), "name": "tales", "run_directory": str(tmp_path)}
    Run(RunConfig.default(**options, **sizes, epochs=1)).train(overwrite=True, verbose=0)
    assert not (tmp_path / "tales/generator.json").exists()
    assert not (tmp_path / "tales/tokenizer").exists()
    assert isinstance(kt.tasks.ModelTask.load(tmp_path / "tales"), kt.Translator)


def texts_of(directory: Path, **options: Any) -> Any:
    path = write_texts(directory)
    return Run(RunConfig.default(task="generate", **{"texts": str(path), **options})).data


def test_a_part_is_held_out_and_equal_texts_stay_together(tmp_path: Path) -> None:
    data, lines = texts_of(tmp_path, validation_fraction=0.1), (tmp_path / "texts.txt").read_text()
    assert sorted([*data.train, *data.validation]) == sorted(lines.splitlines())
    assert not {*data.train} & {*data.validation}
    assert data.test == data.validation
    held_out = tmp_path / "held_out.txt"
    held_out.write_text("a\nb\n")
    data = texts_of(tmp_path, validation_texts=str(held_out), test_texts=str(held_out))
    assert (len(data.train), data.validation, data.test) == (40, ["a", "b"], ["a", "b"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"pairs": "a.tsv"},
            r"`pairs` is an option of task='classify' or 'tag' or 'translate'\. Received: pairs='a\.tsv'",
        ),
        ({"num_encoder_layers": 2}, r"`num_encoder_layers` is an option of task="),
        ({"monitor": "bleu"}, r"`monitor` must be 'loss'\. Received: monitor='bleu'"),
        ({"temperature": -1.0}, r"`temperature` must be greater than or equal to 0"),
        ({"max_length": 1}, r"`max_length` must be greater than or equal to 2"),
    ],
)
def test_an_option_that_such_a_run_does_not_have(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RunConfig.default(task="generate", **options)


def test_texts_are_no_option_of_another_task() -> None:
    with pytest.raises(
        InputError, match=r"`texts` is an option of task='generate'\. Received: texts='a', task='t"
    ):
        RunConfig.default(texts="a")
    with pytest.raises(InputError, match=r"needs texts: --texts FILE"):
        _ = Run(RunConfig.default(task="generate")).data
    with pytest.raises(InputError, match=r"`task` must be one of .*'generate'.*Received: task='sing'"):
        RunConfig.default(task="sing")


def test_a_file_names_the_task(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('task = "generate"\n[data]\ntexts = "a.txt"\n[decoding]\ntemperature = 0\n')
    config = RunConfig.from_toml(path)
    assert config.task == "generate"
    assert config == RunConfig.default(task="generate", texts="a.txt", temperature=0)
    assert RunConfig.from_json(config.model_dump_json()) == config
    assert RunConfig(task="generate") == RunConfig().override(task="generate")
    path.write_text('task = "generate"\n[data]\npairs = "a.tsv"\n')
    with pytest.raises(InputError, match=r"\[data\]: unknown field 'pairs'\. Known fields: texts, "):
        RunConfig.from_toml(path)
