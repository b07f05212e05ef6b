"""The files that examples/tf_serving hands to the server, read with its messages where we have them."""

import re
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from model_server_double.batching import BatchingParameters
from tensorflow_serving.config import model_server_config_pb2

from keras_transformer.export import ServedModel
from keras_transformer.export.serving_graphs import WARM_BATCH_SIZES

DIRECTORY = Path(__file__).parents[2] / "examples" / "tf_serving"


def read(name: str) -> str:
    return (DIRECTORY / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["models.config", "models_rollback.config"])
def test_the_configuration_is_that_of_a_server(name: str) -> None:
    config = text_format.Parse(read(name), model_server_config_pb2.ModelServerConfig())
    [model] = config.model_config_list.config
    assert (model.name, model.base_path, model.model_platform) == ("dates", "/models/dates", "tensorflow")
    assert set(model.version_labels.values()) <= set(model.model_version_policy.specific.versions)


def test_the_batching_parameters_are_known_and_fit() -> None:
    # Unknown names, and sizes with which the server does not start, are refused by the double, too.
    parameters = BatchingParameters.parse(read("batching_parameters.txt"))
    assert parameters.max_batch_size >= 1000
    assert parameters.largest_execution == max(WARM_BATCH_SIZES)


def test_the_readme_names_every_file() -> None:
    readme = read("README.md")
    names = {path.name for path in DIRECTORY.iterdir() if path.is_file()} - {"README.md"}
    assert {name for name in names if name not in readme} == set()


def test_the_readme_says_who_answered() -> None:
    assert "test double" in read("README.md")


@pytest.mark.slow
def test_the_answers_of_the_page_are_those_of_the_export_in_the_tree() -> None:
    model, page = ServedModel(DIRECTORY.parents[1] / "saved_models" / "dates"), read("README.md")
    texts = ["27. jan. 2094", "10. Sept 1924", "Czwartek, 16 Grudnia 2066", "2022. gada 7. Marts"]
    assert all(text in page for text in texts)
    answers = {answer.text: answer.score for answer in model.translate_with_scores(texts)}
    lines = re.findall(r"^(?:1\t)?(-\d\.\d{3})\t(\d{4}-\d\d-\d\d)$", page, flags=re.MULTILINE)
    assert len(lines) >= 7
    for score, text in lines:
        assert float(score) == pytest.approx(answers[text], abs=6e-4)
    for text, score in re.findall(r'"output": "(.+)",\s+"score": (-[\d.]+)', page):
        assert float(score) == pytest.approx(answers[text], abs=1e-4)
    [alignment] = model.align(texts[:1])
    weights = re.findall(r"^\S+\t[ \S]\t(0\.\d\d)$", page, flags=re.MULTILINE)
    expected = [row.max() for row in alignment.attention]
    np.testing.assert_allclose([float(weight) for weight in weights], expected, atol=6e-3)
