"""A configuration from TOML, from JSON and from options, and what is said of a wrong one."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import pytest

from keras_transformer.errors import InputError
from keras_transformer.evaluation.report import METRICS
from keras_transformer.runs import RunConfig
from keras_transformer.training import InverseSquareRootSchedule, NoamSchedule

TOML = """
name = "de_en"

[data]
source = "train.de.gz"
target = "train.en.gz"

[vocabulary]
size = 10000

[model]
preset = "tiny"
dropout = 0.3

[training]
peak_learning_rate = 5e-3

[decoding]
beam_size = 5
"""
SECTIONS = ("data", "vocabulary", "model", "training", "decoding")


def written(directory: Path, content: str | bytes) -> Path:
    path = directory / "run.toml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_from_toml(tmp_path: Path) -> None:
    config = RunConfig.from_toml(written(tmp_path, TOML))
    assert config.name == "de_en"
    assert (config.data.source, config.data.target) == ("train.de.gz", "train.en.gz")
    assert config.vocabulary.size == 10000
    assert config.model.changes == {"dropout": 0.3}
    assert config.training.peak_learning_rate == 5e-3
    assert config.decoding.beam_size == 5
    assert config.run_directory == RunConfig().run_directory


def test_an_empty_file_is_the_default_run(tmp_path: Path) -> None:
    assert RunConfig.from_toml(str(written(tmp_path, ""))) == RunConfig()


def test_a_mark_before_utf_8_is_no_part_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, b"\xef\xbb\xbf" + 'name = "größe"\n'.encode())
    assert RunConfig.from_toml(path).name == "größe"


def test_the_home_directory_has_a_short_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = RunConfig.from_toml(written(tmp_path, 'run_directory = "~/runs"\n[data]\npairs = "~x/a.csv"\n'))
    assert config.run_directory == str(tmp_path / "runs")
    assert config.data.pairs == "~x/a.csv"


def test_json_round_trip(tmp_path: Path) -> None:
    config = RunConfig.from_toml(written(tmp_path, TOML))
    assert RunConfig.from_json(config.model_dump_json()) == config
    # A run that stopped before its first checkpoint checks again what was asked of its initial model.
    assert "preset" not in RunConfig.from_json(RunConfig().model_dump_json()).model.model_fields_set
    assert RunConfig.from_json(RunConfig(task="generate").model_dump_json()).task == "generate"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"epochs\n", "is not valid TOML: .*line 1"),
        (b"name = 'a\xff'\n", "is not valid TOML: .*byte 0xff in position 9"),
        (b"a = 1\na = 2\n", "is not valid TOML: .*line 2"),
        ('model = "tiny"\n', r"\[model\]: must be a table of fields\. Received: 'tiny'\.$"),
        (
            "[training]\nepoch = 3\n",
            r"\[training\]: unknown field 'epoch'\. Known fields: .*epochs, schedule, ",
        ),
        (
            "[model]\ndepth = 3\n",
            r"\[model\]: unknown field 'depth'\. Known fields: preset, initial_model, num_heads",
        ),
        ("epochs = 3\n", r"unknown field 'epochs'\. It is a field of \[training\]\. Known fields: name, "),
        ("[trainning]\n", r"unknown field 'trainning'\. Known fields: name, run_directory, .*, decoding\.$"),
        ('[decoding]\nbeam_size = "4"\n', r"\[decoding\]: `beam_size` must be a valid integer\. .*'4'\.$"),
        (
            "[decoding]\nbeam_size = true\n",
            r"`beam_size` must be a valid integer\. Received: beam_size=True\.$",
        ),
        (
            "[decoding]\nbeam_size = [4]\n",
            r"`beam_size` must be a valid integer\. Received: beam_size=\[4\]\.$",
        ),
        ("[decoding]\nbeam_size = 0\n", r"must be greater than or equal to 1\. Received: beam_size=0\.$"),
        (
            "[model]\nhidden_dim = 1.5\n",
            r"\[model\]: `hidden_dim` must be a valid integer\. .*hidden_dim=1\.5\.$",
        ),
        ("[model]\nnorm_first = 1\n", r"\[model\]: `norm_first` must be a valid boolean\. .*norm_first=1\.$"),
        (
            "[data]\nsource = 'a'\n",
            r"\[data\]: `source` and `target` must be given together\. .*source='a', t",
        ),
    ],
)
def test_a_wrong_file_is_one_line_that_says_where(content: str | bytes, reason: str, tmp_path: Path) -> None:
    path = written(tmp_path, content)
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}: .*{reason}") as caught:
        RunConfig.from_toml(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "reason"), [("absent.toml", "No such file"), (".", ".*directory")])
def test_a_file_that_cannot_be_read_is_named(name: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"^Cannot read {re.escape(str(tmp_path / name))}: {reason}"):
        RunConfig.from_toml(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not valid JSON: .*line 1 column 2"),
        ("[1]", r"must hold a JSON object\. Received: \[1\]\.$"),
    ],
)
def test_wrong_json_says_where(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=rf"^run\.json: {reason}"):
        RunConfig.from_json(text, origin="run.json")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_source_length": 1}, "`max_source_length` must be greater than or equal to 2. Received: max_s"),
        ({"tokens_per_batch": 0}, "`tokens_per_batch` must be greater than or equal to 1. Received: tokens"),
        ({"tokens_per_batch": 2**31}, "must be less than 2147483648. Received: tokens_per_batch=2147483648."),
        ({"seed": -1}, "`seed` must be greater than or equal to 0. Received: seed=-1."),
        ({"seed": 2**31}, "`seed` must be less than 2147483648. Received: seed=2147483648."),
        ({"validation_fraction": 1.5}, "must be less than 1. Received: validation_fraction=1.5."),
        (
            {"validation_fraction": 0},
            "must be above 0; some examples must choose the best checkpoint.",
        ),
        ({"pairs": ""}, "`pairs` must have at least 1 character. Received: pairs=''."),
        (
            {"source": [], "target": []},
            "`source` must have at least 1 item after validation, not 0. Received",
        ),
        ({"test_source": "a"}, "`test_source` and `test_target` must be given together. Received: test_sour"),
        (
            {"pairs": "a.tsv", "source": "a", "target": "b"},
            "two origins; give one. Received: pairs='a.tsv', ",
        ),
        ({"kind": "word"}, "must be 'character', 'subword' or 'whitespace'. Received: kind='word'."),
        ({"size": 4}, "`size` must be greater than or equal to 5. Received: size=4."),
        (
            {"kind": "character", "target_kind": "whitespace"},
            "set `shared` to false. Received: kind='charact",
        ),
        (
            {"kind": "character", "subword_dropout": 0.1},
            "for subword vocabularies. Received: subword_dropout",
        ),
        ({"preset": "huge"}, "`preset` must be 'tiny', 'small', 'base' or 'big'. Received: preset='huge'."),
        (
            {"initial_model": ""},
            "`initial_model` must have at least 1 character. Received: initial_model=''.",
        ),
        ({"hidden_dim": -8}, "`hidden_dim` must be above zero. Received: hidden_dim=-8."),
        ({"num_heads": 3, "hidden_dim": 8}, "must divide `hidden_dim`. Received: num_heads=3, hidden_dim=8."),
        (
            {"normalization": "batch"},
            "`normalization` must be 'layer' or 'rms'. Received: normalization='batc",
        ),
        ({"epochs": 0}, "`epochs` must be greater than or equal to 1. Received: epochs=0."),
        ({"peak_learning_rate": 0.0}, "must be greater than 0. Received: peak_learning_rate=0.0."),
        ({"peak_learning_rate": float("nan")}, "must be a finite number. Received: peak_learning_rate=nan."),
        ({"peak_learning_rate": float("inf")}, "must be a finite number. Received: peak_learning_rate=inf."),
        ({"schedule": "step"}, "'cosine', 'inverse_square_root' or 'noam'. Received: schedule='step'."),
        ({"precision": "float8"}, "'mixed_bfloat16' or 'mixed_float16'. Received: precision='float8'."),
        ({"ema_momentum": 1.0}, "`ema_momentum` must be less than 1. Received: ema_momentum=1.0."),
        ({"clip_norm": 0.0}, "`clip_norm` must be greater than 0. Received: clip_norm=0.0."),
        ({"r_drop": -1.0}, "`r_drop` must be greater than or equal to 0. Received: r_drop=-1.0."),
        ({"monitor": "accuracy"}, "`monitor` must be 'loss', 'bleu', 'chrf', "),
        ({"max_target_length": 1}, "must be greater than or equal to 2. Received: max_target_length=1."),
        ({"length_penalty": -0.5}, "must be greater than or equal to 0. Received: length_penalty=-0.5."),
        ({"bleu_tokenize": "moses"}, "'13a', 'none', 'intl' or 'char'. Received: bleu_tokenize='moses'."),
        (
            {"export_directory": ""},
            "`export_directory` must have at least 1 character. Received: export_dire",
        ),
        ({"beams": 3}, "No section has this field. Received: 'beams'. Known: name, run_directory, "),
        ({"data": 3}, "No section has this field. Received: 'data'. Known: "),
    ],
)
def test_a_wrong_option_is_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        RunConfig().override(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "a\0"])
def test_the_name_is_no_path(name: str) -> None:
    with pytest.raises(
        InputError, match=re.escape(f"must be the name of a directory, no path. Received: name={name!r}.")
    ):
        RunConfig().override(name=name)


@pytest.mark.parametrize(
    "options",
    [
        {"validation_fraction": 0, "validation_source": "a", "validation_target": "b"},
        {"length_penalty": 0, "peak_learning_rate": 1, "seed": 2**31 - 1},
        {"kind": "character", "target_kind": "whitespace", "shared": False},
        {"kind": "character", "target_kind": "subword", "shared": False, "subword_dropout": 0.1},
        {"initial_model": "runs/a", "num_heads": 3},
        {"positions": "learned"},
    ],
)
def test_values_at_the_edge(options: dict[str, Any]) -> None:
    RunConfig().override(**options)


def test_override_changes_what_was_given(tmp_path: Path) -> None:
    config = RunConfig.from_toml(written(tmp_path, TOML))
    changed = config.override(epochs=2, name="en_de", preset="base", num_heads=16)
    assert (changed.name, changed.training.epochs, changed.model.preset) == ("en_de", 2, "base")
    assert changed.model.changes == {"dropout": 0.3, "num_heads": 16}
    assert changed.decoding == config.decoding
    assert config.name == "de_en"


def test_a_name_in_two_sections_is_set_in_both() -> None:
    config = RunConfig().override(seed=7, max_target_length=64)
    assert (config.data.seed, config.training.seed) == (7, 7)
    assert (config.data.max_target_length, config.decoding.max_target_length) == (64, 64)


def test_no_other_name_stands_in_two_sections() -> None:
    names = [name for section in SECTIONS for name in type(getattr(RunConfig(), section)).model_fields]
    twice = {name for name in names if names.count(name) > 1}
    assert twice == {name for name, option in RunConfig.options().items() if len(option.sections) > 1}


def test_a_preset_and_what_differs_from_it() -> None:
    model = RunConfig().override(preset="big", dropout=0.0, norm_first=False, num_encoder_layers=2).model
    config = model.transformer(source_vocabulary_size=7, target_vocabulary_size=9)
    assert (config.hidden_dim, config.dropout, config.norm_first) == (1024, 0.0, False)
    assert (config.num_encoder_layers, config.source_vocabulary_size) == (2, 7)


def test_what_is_not_given_is_taken_from_elsewhere() -> None:
    chosen = {"tokens_per_batch": 512, "epochs": 82, "warmup_steps": 607}
    assert RunConfig().completed(chosen).chosen == chosen
    assert RunConfig().override(epochs=3).completed(chosen).chosen == {**chosen, "epochs": 3}
    assert RunConfig.default().completed(chosen) == RunConfig.default()


def test_a_configuration_is_frozen() -> None:
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        RunConfig().name = "other"
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        RunConfig().training.epochs = 3


def test_every_option_is_explained() -> None:
    assert [name for name, option in RunConfig.options().items() if not option.text] == []


def test_what_can_be_monitored_is_the_loss_and_every_metric() -> None:
    for name in ("loss", *METRICS):
        assert RunConfig().override(monitor=name).training.monitor == name


def test_nothing_given_is_the_built_in_task() -> None:
    dates = RunConfig.default()
    assert (dates.name, dates.data.pairs) == ("dates", "dates")
    changed = RunConfig.default(pairs="dates", epochs=2)
    assert (changed.training.epochs, changed.vocabulary) == (2, dates.vocabulary)


def test_a_preset_is_that_of_the_built_in_task_too() -> None:
    config = RunConfig.default(preset="base", num_heads=4)
    assert config.model == RunConfig().override(preset="base", num_heads=4).model
    assert config.training == RunConfig.default().training


@pytest.mark.parametrize("options", [{"pairs": "a.tsv"}, {"source": "a", "target": "b"}])
def test_own_texts_start_from_the_general_defaults(options: dict[str, Any]) -> None:
    assert RunConfig.default(**options) == RunConfig().override(**options)


def test_half_of_the_two_files_is_no_built_in_task() -> None:
    with pytest.raises(InputError, match="must be given together"):
        RunConfig.default(source="a")


def learning_rate(schedule: str, num_steps: int = 20, warmup_steps: int = 4) -> Any:
    config = RunConfig(name="rates").override(schedule=schedule, peak_learning_rate=0.01)
    return config.training.learning_rate(num_steps, warmup_steps, 8)


def test_learning_rates_by_name() -> None:
    assert learning_rate("constant") == 0.01
    square_root, noam = learning_rate("inverse_square_root"), learning_rate("noam")
    assert isinstance(square_root, InverseSquareRootSchedule)
    assert (square_root.peak_learning_rate, square_root.warmup_steps) == (0.01, 4)
    assert isinstance(noam, NoamSchedule)
    assert (noam.hidden_dim, noam.warmup_steps) == (8, 4)


def test_cosine_rises_to_the_peak_and_ends_at_zero() -> None:
    schedule = learning_rate("cosine")
    rates = [float(schedule(step)) for step in (0, 2, 4, 12, 20)]
    np.testing.assert_allclose(rates, [0.0, 0.005, 0.01, 0.005, 0.0], atol=1e-7)


@pytest.mark.parametrize("num_steps", [1, 3, 10])
def test_a_short_cosine_is_not_all_warm_up(num_steps: int) -> None:
    schedule = learning_rate("cosine", num_steps, 1000)
    rates = np.array([float(schedule(step)) for step in range(num_steps + 1)])
    assert rates.max() == pytest.approx(0.01)
    assert rates[-1] == pytest.approx(0.0, abs=1e-7)
