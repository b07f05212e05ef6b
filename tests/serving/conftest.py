"""A model made by hand with the documented signatures, and the double that serves it.

The double stands for the real model server, whose binary the tests cannot install.
"""

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

# Else a process that a test starts waits a minute and more for the threads of a server in this one.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
# The double is a program of its own: `python -m model_server_double` finds it the same way.
# The clients are programs too, each run in its directory.
ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "serving"), str(ROOT / "examples" / "tf_serving")]
batching = importlib.import_module("model_server_double.batching")
registry = importlib.import_module("model_server_double.registry")
server = importlib.import_module("model_server_double.server")

TEXT = tf.TensorSpec([None], tf.string, name="text")
CONFIG = "model_config_list {{ config {{ name: 'toy' base_path: '/models/toy' {} }} }}"


class ToyTranslator(tf.Module):
    """Upper-cases; its score is minus the number of bytes. The suffix tells versions apart."""

    def __init__(self, suffix: str) -> None:
        super().__init__()
        self.suffix = suffix

    @tf.function(input_signature=[TEXT])
    def serving_default(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        size = tf.strings.length(text)
        output = tf.strings.upper(text) + self.suffix
        return {"output": output, "score": -tf.cast(size, tf.float32), "is_cut": size > 20}

    @tf.function(input_signature=[TEXT])
    def n_best(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        best = self.serving_default(text)
        outputs = tf.stack([best["output"], tf.strings.lower(text)], axis=1)
        # An empty text has one answer alone.
        second = tf.where(best["score"] < 0, best["score"] - 1, -1e30)
        return {"output": outputs, "score": tf.stack([best["score"], second], axis=1)}

    @tf.function(input_signature=[TEXT])
    def align(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        source_tokens = tf.strings.unicode_split(text, "UTF-8").to_tensor("")  # (b, s)
        weights = tf.eye(tf.shape(source_tokens)[1], batch_shape=tf.shape(text))
        output = tf.strings.upper(text)
        output_tokens = tf.strings.unicode_split(output, "UTF-8").to_tensor("")
        return {
            "output": output,
            "source_tokens": source_tokens,
            "output_tokens": output_tokens,
            "attention": weights[:, : tf.shape(output_tokens)[1]],
        }

    @tf.function(input_signature=[TEXT, tf.TensorSpec([None], tf.string, name="output")])
    def score(self, text: tf.Tensor, output: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.control_dependencies([tf.debugging.assert_equal(tf.shape(text), tf.shape(output))]):
            num_tokens = tf.strings.length(output, unit="UTF8_CHAR")
        return {"score": -tf.cast(num_tokens, tf.float32) / 2, "num_tokens": num_tokens}

    @tf.function(input_signature=[TEXT])
    def raw(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """A single output, of bytes."""
        return {"copy_bytes": tf.identity(text)}

    def search(self) -> Any:
        """Read the first bytes of a text; the penalty is taken off the score, and rows have two answers.

        An option of -1 is that of the model. Unlike our exports it has defaults, as a server may meet them.
        """
        own, own_penalty = tf.constant([-1]), tf.constant([-1.0])

        def search(
            text: tf.Tensor,
            max_length: tf.Tensor = own,
            length_penalty: tf.Tensor = own_penalty,
            num_hypotheses: tf.Tensor = own,
        ) -> dict[str, tf.Tensor]:
            max_length = tf.where(max_length == -1, 9, max_length)
            answers = self.n_best(tf.strings.substr(text, tf.zeros_like(max_length), max_length))
            wanted = tf.where(num_hypotheses == -1, 2, num_hypotheses)
            is_wanted = tf.range(2)[None, :] < wanted[:, None]
            scores = answers["score"] - tf.where(length_penalty == -1, 0.0, length_penalty)[:, None]
            return {
                "output": tf.where(is_wanted, answers["output"], ""),
                "score": tf.where(is_wanted, scores, -1e30),
            }

        numbers = {"max_length": tf.int32, "length_penalty": tf.float32, "num_hypotheses": tf.int32}
        specs = [TEXT, *(tf.TensorSpec([None], dtype, name=name) for name, dtype in numbers.items())]
        return tf.function(search, input_signature=specs)

    def signatures(self) -> dict[str, Any]:
        names = ("serving_default", "n_best", "align", "score", "raw")
        functions = {name: getattr(self, name).get_concrete_function() for name in names}
        return {**functions, "search": self.search()}


@pytest.fixture(scope="session")
def toy_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with versions 1 and 2 of the model `toy`."""
    models = tmp_path_factory.mktemp("models")
    for version in (1, 2):
        module = ToyTranslator(suffix="" if version == 2 else "?")
        tf.saved_model.save(module, str(models / "toy" / str(version)), signatures=module.signatures())
    return models


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "models.config"
    path.write_text(CONFIG.format(""))
    return path


@pytest.fixture(scope="session")
def toy_registry(toy_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Version 2 without a name, version 1 under the label `old`."""
    path = tmp_path_factory.mktemp("config") / "models.config"
    policy = "model_version_policy { specific { versions: 1 versions: 2 } }"
    path.write_text(CONFIG.format(policy + " version_labels { key: 'old' value: 1 }"))
    return registry.Registry(path, toy_models)


@pytest.fixture(scope="module")
def ports(toy_registry: Any) -> Iterator[Any]:
    """Where the double serves the model."""
    with server.serving(toy_registry) as bound:
        yield bound


@pytest.fixture(scope="session")
def batching_registry(toy_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The model behind the batching that the example's file asks for."""
    path = tmp_path_factory.mktemp("config") / "models.config"
    path.write_text(CONFIG.format(""))
    file = ROOT / "examples" / "tf_serving" / "batching_parameters.txt"
    parameters = batching.BatchingParameters.parse(file.read_text(encoding="utf-8"))
    return registry.Registry(path, toy_models, batching=parameters)


@pytest.fixture(scope="module")
def batching_ports(batching_registry: Any) -> Iterator[Any]:
    """Where the double serves it."""
    with server.serving(batching_registry) as bound:
        yield bound
