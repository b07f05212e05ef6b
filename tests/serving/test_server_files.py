"""The files that examples/tf_serving hands to the server, read with its messages where we have them."""

import re
from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

DIRECTORY = Path(__file__).parents[2] / "examples" / "tf_serving"
# Of the message BatchingParameters, which tensorflow-serving-api does not carry.
WRAPPED = {"max_batch_size", "batch_timeout_micros", "num_batch_threads", "max_enqueued_batches"}


def read(name: str) -> str:
    return (DIRECTORY / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["models.config", "models_rollback.config"])
def test_the_configuration_is_that_of_a_server(name: str) -> None:
    config = text_format.Parse(read(name), model_server_config_pb2.ModelServerConfig())
    [model] = config.model_config_list.config
    assert (model.name, model.base_path, model.model_platform) == ("dates", "/models/dates", "tensorflow")
    assert set(model.version_labels.values()) <= set(model.model_version_policy.specific.versions)


def test_the_batching_parameters_are_known_and_fit() -> None:
    text = read("batching_parameters.txt")
    values = dict(re.findall(r"^(\w+) \{ value: (\d+) \}$", text, flags=re.MULTILINE))
    sizes = [int(size) for size in re.findall(r"^allowed_batch_sizes: (\d+)$", text, flags=re.MULTILINE)]
    assert set(values) == WRAPPED
    assert len(text.splitlines()) == len(values) + len(sizes)
    # Both are demanded by the server, which otherwise does not start.
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == int(values["max_batch_size"])


def test_the_readme_names_every_file() -> None:
    readme = read("README.md")
    names = {path.name for path in DIRECTORY.iterdir() if path.is_file()} - {"README.md"}
    assert {name for name in names if name not in readme} == set()


def test_the_readme_says_who_answered() -> None:
    assert "test double" in read("README.md")
