"""A run from labelled texts to a served classifier, from the command line and from Python."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.export import ServedClassifier, served_kind
from keras_transformer.runs import Run, RunConfig
from trained_run import Command, flags

SMALL = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 16, "kind": "whitespace"}
SMALL |= {"max_length": 16, "tokens_per_batch": 64, "peak_learning_rate": 0.01, "dropout": 0.0}
WORDS = {"good": ["fine", "great"], "bad": ["poor", "dull"], "odd": ["strange", "queer"]}


def write_texts(path: Path, num: int, *, several: bool = False) -> Path:
    """Write texts whose words tell their labels; with several of them one or two."""
    draw = np.random.default_rng(num)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["review", "sentiment"])
        for number in range(num):
            labels = draw.permutation([*WORDS])[: 1 + (several and number % 2)]
            words = [draw.choice(WORDS[label]) for label in labels]
            rows.writerow([f"a {' and '.join(words)} film {number % 7}", "|".join(sorted(labels))])
    return path


@pytest.mark.slow
def test_the_command_line_from_a_table_to_a_server(command: Command, tmp_path: Path) -> None:
    training, test = write_texts(tmp_path / "training.csv", 300), write_texts(tmp_path / "test.csv", 60)
    with test.open("a", encoding="utf-8") as file:
        file.write("what is this,never seen\n")
    options = {"pairs": training, "test_pairs": test, "name": "films", "class_weight": "balanced", **SMALL}
    result = command("train", "--task", "classify", *flags(epochs=4, **options), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "is \\ called" in result.stdout
    report = json.loads(Path("runs/films/report.json").read_text(encoding="utf-8"))
    assert report["scores"]["accuracy"]["value"] > 0.9
    # A label that occurs in the test file alone is never given.
    assert report["labels"]["never seen"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1}
    assert np.shape(report["confusion"]) == (4, 4)
    page = Path("runs/films/report.html").read_text(encoding="utf-8")
    assert "Confusion matrix" in page
    assert "never seen" in page

    texts = "a dull film\n\na queer film 3\n"
    for place in (["--model", "runs/films"], ["--saved-model", "saved_models/films"]):
        result = command("classify", *place, "--scores", input=texts)
        assert [line.split("\t")[1] for line in result.stdout.splitlines()] == ["bad", "", "odd"]
        result = command("evaluate", *place, "--pairs", test)
        assert f"accuracy  {100 * report['scores']['accuracy']['value']:.2f} %" in result.stdout
    result = command("evaluate", "--model", "runs/films", "--pairs", test, "--beam-size", 8)
    assert (result.exit_code, "Received: a TextClassifier" in result.stderr) == (2, True)
    further = ["--name", "further", "--pairs", training, "--initial-model", "runs/films", "--pooling", "max"]
    result = command("train", "--task", "classify", *further)
    assert (result.exit_code, "pooling='max' where the model has 'mean'" in result.stderr) == (2, True)
    result = command("translate", "--saved-model", "saved_models/films", "a film")
    assert result.exit_code == 2
    assert "is a ServedClassifier; ask it with: keras-transformer classify" in result.stderr
    only = command("classify", "a film")  # the only export in saved_models
    assert only.stdout == command("classify", "--saved-model", "saved_models/films", "a film").stdout != ""

    result = command(
        "train", "--task", "classify", "--name", "films", "--resume", "--epochs", "5", "--no-export"
    )
    assert result.exit_code == 0, result.output
    run = Run.open("runs/films")
    assert run.num_epochs == 5
    assert isinstance(run.task, kt.TextClassifier)
    assert run.task.labels == ("bad", "good", "odd")
    assert run.evaluate()["accuracy"] > 0.9
    with pytest.raises(InputError, match="a run with task='classify'"):
        _ = run.translator


@pytest.mark.slow
def test_several_labels(tmp_path: Path) -> None:
    options = {"task": "classify", "name": "films", "multi_label": True, "epochs": 12, **SMALL}
    options["pairs"] = str(write_texts(tmp_path / "training.csv", 300, several=True))
    options |= {"run_directory": str(tmp_path / "runs"), "export_directory": str(tmp_path / "saved_models")}
    run = Run(RunConfig.default(**options))
    report = run.train(verbose=0)
    assert report["micro_f1"] > 0.9
    assert "Confusion matrix" not in (run.directory / "report.html").read_text(encoding="utf-8")
    assert run.task.classify("a great and dull film").labels == ("bad", "good")
    version = run.export()
    assert served_kind(version) is ServedClassifier
    served = run.kind.score(ServedClassifier(version), run.data.test)[0]
    assert served["micro_f1"] == report["micro_f1"]


def test_the_order_of_labels_is_no_mistake() -> None:
    kind = Run(RunConfig.default(task="classify", multi_label=True, pairs="x.csv")).kind
    output = kt.tasks.Classification("art", 0.9, ("art", "b"), {"art": 0.9, "b": 0.8, "c": 0.1})
    examples = [("one", ("b", "art")), ("two", ("c", "art"))]
    assert kind.mistakes(examples, [output, output]) == [("two", "art|c", "art|b", 0.9)]
    assert kind.lines(examples, [output, output])[-2:] == [
        "  0.900  art|b  ←  one",
        "  0.900  art|b  ←  two  (art|c)",
    ]


@pytest.fixture
def earlier(tmp_path: Path) -> kt.TextClassifier:
    """A classifier in `tmp_path / "earlier"`, whose labels are in no order."""
    tokenizer = kt.text.WhitespaceTokenizer.train(["a fine great poor dull strange queer and film"])
    sizes = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 16, "dropout": 0.0}
    model = kt.EncoderModel(
        tokenizer.vocabulary_size, 3, pooling="mean", positions="learned", max_length=20, **sizes
    )
    model.enable_lora(3, "output_projection")  # as many as labels
    for weight in model.output_projection.weights:
        weight.assign(np.random.default_rng(0).normal(size=weight.shape))
    classifier = kt.TextClassifier(model, tokenizer, ["odd", "bad", "good"], max_length=16)
    classifier.save(tmp_path / "earlier")
    return classifier


def further_run(directory: Path, **options: object) -> Run:
    training = str(write_texts(directory / "training.csv", 40))
    places = {"run_directory": str(directory), "initial_model": str(directory / "earlier")}
    options = {"task": "classify", "epochs": 1, "pairs": training, **places, **options}
    return Run(RunConfig.default(**options))


@pytest.mark.slow
def test_the_labels_of_an_earlier_model_keep_their_outputs(
    earlier: kt.TextClassifier, tmp_path: Path
) -> None:
    run = further_run(tmp_path, max_length=16, peak_learning_rate=1e-9)
    run.train(verbose=0)
    assert run.task.labels == ("bad", "good", "odd")
    texts = ["a fine film", "dull", "a queer and poor film"]
    for now, before in zip(run.task.classify(texts), earlier.classify(texts), strict=True):
        assert now.label == before.label
        assert now.probabilities == pytest.approx(before.probabilities, abs=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_kind": "character"}, r"`target_kind` is an option of task="),
        ({"kind": "character"}, r"own vocabularies\. Received: kind='character' where .* 'whitespace'\."),
        ({"size": 5}, r"Received: size=5 where the model has 13\."),
        ({"multi_label": True}, r"`multi_label` must be that of .* Received: True where the model has False"),
        ({"lowercase": True}, r"Received: lowercase=True where the model has False\."),
        ({"normalization_rule": "identity"}, r"normalization_rule='identity' where the model has None"),
        ({"preset": "big"}, r"Received: hidden_dim=1024 where the model has 16, num_heads=16 where "),
    ],
)
@pytest.mark.usefixtures("earlier")
def test_what_an_earlier_model_is_not(options: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        further_run(tmp_path, **{"max_length": 16, **options}).train(verbose=0)


@pytest.mark.usefixtures("earlier")
def test_texts_longer_than_the_positions_of_the_earlier_model(tmp_path: Path) -> None:
    run = further_run(tmp_path)
    path = tmp_path / "training.csv"
    path.write_text(path.read_text(encoding="utf-8") + f"{'a film ' * 12},good\n", encoding="utf-8")
    with pytest.raises(
        InputError,
        match=r"`max_length` must be at most 20, .* longest of the texts needs 25. Received: max_length=256",
    ):
        run.train(verbose=0)


@pytest.mark.usefixtures("earlier")
def test_other_labels_are_not_those_of_the_earlier_model(tmp_path: Path) -> None:
    run = further_run(tmp_path)
    path = tmp_path / "training.csv"
    path.write_text(path.read_text(encoding="utf-8").replace(",odd", ",funny"), encoding="utf-8")
    with pytest.raises(
        InputError, match=r"same labels.*\['odd'\] only in the model, \['funny'\] only in .*csv"
    ):
        run.train(verbose=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"r_drop": 1.0}, r"`r_drop` is for tasks that write tokens. Received: r_drop=1.0"),
        ({"label_smoothing": 0.1}, r"`label_smoothing` is for tasks that write tokens"),
        ({"beam_size": 2}, r"`beam_size` is an option of task='frames' or 'translate'"),
        ({"num_decoder_layers": 2}, r"`num_decoder_layers` is an option of task="),
        ({"validation_fraction": 0.0}, r"`validation_fraction` must be above 0"),
        ({"class_weight": "even"}, r"`class_weight` must be 'balanced'"),
    ],
)
def test_options_that_labels_do_not_have(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RunConfig.default(task="classify", **options)


def test_what_cannot_be_trained_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"needs labelled texts: --pairs FILE. Received: none"):
        _ = Run(RunConfig.default(task="classify")).data
    path = tmp_path / "x.csv"
    path.write_text("text,label\nA.,x\nB.,x\nC.,x\n", encoding="utf-8")
    run = Run(RunConfig.default(task="classify", pairs=str(path), run_directory=str(tmp_path / "runs")))
    with pytest.raises(InputError, match=r"two different labels. Received: 3 times 'x'"):
        run.train(verbose=0)
