"""An export of ours behind the test double, and in a C program: each gives the translator's answers."""

import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc_client
import keras
import numpy as np
import pytest
import rest_client
from click.testing import CliRunner
from model_server_double.batching import BatchingParameters
from model_server_double.errors import ServerError
from model_server_double.registry import Registry
from model_server_double.rest import respond
from model_server_double.server import serving

import keras_transformer as kt

# It trains nothing, but exports.
pytestmark = pytest.mark.slow

if keras.backend.backend() != "tensorflow":
    pytest.skip("exports are made on the TensorFlow backend", allow_module_level=True)

PROGRAM = Path(__file__).parents[2] / "examples" / "tf_serving" / "translate.c"
TEXTS = ["a dog sat", "", "the cat ran", "\U0001f600 rat"]


@pytest.fixture(scope="module")
def translator() -> kt.Translator:
    """Subwords, so that operations of TensorFlow Text are among those that the double links."""
    keras.utils.set_random_seed(1)
    tokenizer = kt.text.SubwordTokenizer.train(TEXTS, vocabulary_size=20)
    model = kt.Transformer(20, 20, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8)
    search = kt.decoding.BeamSearch(2)
    return kt.Translator(
        model, tokenizer, tokenizer, search=search, max_source_length=20, max_target_length=5
    )


@pytest.fixture(scope="module")
def version(translator: kt.Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("export") / "models" / "rats"
    return kt.export.export_saved_model(translator, directory, examples=TEXTS[::2])


@pytest.fixture(scope="module")
def registry(version: Path) -> Registry:
    models = version.parents[1]
    config = models.with_name("models.config")
    config.write_text("model_config_list { config { name: 'rats' base_path: '/models/rats' } }")
    return Registry(config, models)


@pytest.fixture(scope="module")
def ports(registry: Registry) -> Iterator[Any]:
    with serving(registry) as bound:
        yield bound


def test_the_warm_up_requests_are_answered_at_load(registry: Registry) -> None:
    assert registry.find("rats")[1].num_warmup_requests >= 3


def test_rows_over_rest(registry: Registry, translator: kt.Translator) -> None:
    body = json.dumps({"instances": TEXTS}).encode()
    status, answer = respond(registry, "POST", "/v1/models/rats:predict", body)
    assert status == 200
    wanted = translator.translate_with_scores(TEXTS)
    assert [row["output"] for row in answer["predictions"]] == [answer.text for answer in wanted]
    scores = [row["score"] for row in answer["predictions"]]
    assert scores == pytest.approx([answer.score for answer in wanted], abs=1e-4)


def test_both_clients_print_the_answers(ports: Any, translator: kt.Translator) -> None:
    for client, server in clients(ports).items():
        finished = CliRunner().invoke(client.main, ["--server", server, "--model", "rats", *TEXTS])
        assert finished.exit_code == 0, finished.output
        outputs = [line.split("\t")[1] for line in finished.stdout.splitlines()]
        assert outputs == translator.translate(TEXTS)


@pytest.fixture(scope="module")
def batching(version: Path, registry: Registry) -> Registry:
    """The export behind the batching that its README and the example ask for, with its warm-up."""
    text = (PROGRAM.parent / "batching_parameters.txt").read_text(encoding="utf-8")
    lines = (version / "README.md").read_text(encoding="utf-8").splitlines()
    assert {*text.splitlines()} <= {line.strip() for line in lines}
    models = version.parents[1]
    return Registry(models.with_name("models.config"), models, batching=BatchingParameters.parse(text))


def test_options_of_many_texts_hold_with_batching(batching: Registry, translator: kt.Translator) -> None:
    texts = TEXTS * 20
    own = {"max_length": np.int32, "length_penalty": np.float32, "num_hypotheses": np.int32}
    options = {name: np.full(80, -1, dtype) for name, dtype in own.items()}
    # Parts of a request ask for other numbers of answers, and are joined all the same.
    options["num_hypotheses"][40:] = 1
    column = np.array([text.encode() for text in texts], object)
    answer = batching.find("rats")[1].predict("search", {"text": column, **options})
    wanted = [each.text.encode() for each in translator.translate_with_scores(texts)]
    assert answer["output"][:, 0].tolist() == wanted
    assert {*answer["output"][40:, 1]} == {b""}
    del options["length_penalty"]
    with pytest.raises(ServerError, match=re.escape("Missing but required: {length_penalty}")):
        batching.find("rats")[1].predict("search", {"text": column, **options})


def test_many_texts_hold_with_batching(batching: Registry, translator: kt.Translator) -> None:
    texts = [*TEXTS * 25, " ", "\u3000"]
    with serving(batching) as ports:
        for client, server in clients(ports).items():
            words = ["--server", server, "--model", "rats", "--batch-size", "100"]
            finished = CliRunner().invoke(client.main, [*words, *texts])
            assert finished.exit_code == 0, finished.output
            outputs = [line.split("\t")[1] for line in finished.stdout.splitlines()]
            assert outputs == translator.translate(texts)


def clients(ports: Any) -> dict[Any, str]:
    return {rest_client: f"http://127.0.0.1:{ports.rest}", grpc_client: f"127.0.0.1:{ports.grpc}"}


def package_directory(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile as the page says; a warning is an error here."""
    package = package_directory("tensorflow")
    libraries = [package / "libtensorflow_cc.so.2", package / "libtensorflow_framework.so.2"]
    if shutil.which("cc") is None or not all(library.exists() for library in libraries):
        pytest.skip("needs a C compiler, and TensorFlow's libraries as they are named on Linux")
    path = tmp_path_factory.mktemp("program") / "translate"
    options = ["-O2", "-Wall", "-Wextra", "-Werror", "-isystem", package / "include"]
    command = ["cc", *options, PROGRAM, "-o", path, *libraries, f"-Wl,-rpath,{package}"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return path


def test_a_c_program_prints_the_answers(
    program: Path, version: Path, translator: kt.Translator, tmp_path: Path
) -> None:
    operations = package_directory("tensorflow_text") / "python" / "ops"
    finished = subprocess.run(
        [program, version, *operations.glob("*.so")],
        input="\n".join(TEXTS).encode(),
        capture_output=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    lines = [line.split("\t") for line in finished.stdout.decode().splitlines()]
    wanted = translator.translate_with_scores(TEXTS)
    assert [text for _, text in lines] == [answer.text for answer in wanted]
    assert [float(score) for score, _ in lines] == pytest.approx(
        [answer.score for answer in wanted], abs=2e-3
    )
    finished = subprocess.run([program, tmp_path], capture_output=True, check=False)
    assert finished.returncode == 2
    assert str(tmp_path).encode() in finished.stderr
