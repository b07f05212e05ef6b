"""Versions, atomicity, and the files of the directory that is written."""

import ast
import copy
import json
import math
import re
import shlex
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

import keras_transformer as kt
from helpers import talkative
from keras_transformer.errors import ExportError, InputError
from keras_transformer.export import ServedModel, export_saved_model
from keras_transformer.export import saved_model as saved_model_module

NAMES = {
    "serving_default": ["text"],
    "n_best": ["text"],
    "align": ["text"],
    "score": ["text", "output"],
    "search": ["text", "max_length", "length_penalty", "num_hypotheses"],
}
WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"
Export = Callable[..., Path]


@pytest.fixture
def export(translator: kt.Translator, monkeypatch: pytest.MonkeyPatch) -> Export:
    """Write everything but the graph, which takes seconds, and do not verify it."""
    monkeypatch.setattr(saved_model_module, "_write_graphs", lambda *_: None)
    monkeypatch.setattr(saved_model_module, "_verify_results", lambda *_: None)

    def write(
        directory: Path,
        examples: Sequence[str] = (),
        optimize: str = "float32",
        threads: int | None = None,
        **changes: Any,
    ) -> Path:
        changed = changes.get("translator", translator)
        return export_saved_model(changed, directory, examples, optimize, threads)

    return write


def test_the_directory_is_what_a_server_wants(exported: Path, translator: kt.Translator) -> None:
    assert exported.name == "1"
    assert sorted(path.name for path in exported.parent.iterdir()) == ["1", "models.config"]
    names = {str(path.relative_to(exported)) for path in exported.rglob("*") if path.is_file()}
    assert names >= {
        "README.md",
        "assets/vocabulary.txt",
        WARMUP_FILE,
        "saved_model.pb",
        "variables/variables.index",
    }
    lines = (exported / "assets/vocabulary.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == translator.source_tokenizer.vocabulary_size


def variables(version: Path) -> dict[str, tuple[list[int], tf.DType]]:
    """Return shapes and dtypes of the weights that a version holds."""
    reader = tf.train.load_checkpoint(str(version / "variables/variables"))
    dtypes = reader.get_variable_to_dtype_map()
    return {
        name: (shape, dtypes[name])
        for name, shape in reader.get_variable_to_shape_map().items()
        if name.startswith("model_variables")
    }


def num_bytes(version: Path) -> int:
    """Count the bytes of all numbers that a version holds; the names of a small model weigh more."""
    reader = tf.train.load_checkpoint(str(version / "variables/variables"))
    dtypes, shapes = reader.get_variable_to_dtype_map(), reader.get_variable_to_shape_map()
    return sum(
        math.prod(shape) * dtypes[name].size for name, shape in shapes.items() if dtypes[name] != tf.string
    )


def test_every_weight_is_stored_once(exported: Path, translator: kt.Translator) -> None:
    assert len(variables(exported)) == len(translator.model.weights)


@pytest.fixture
def unverified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the verification, for tests that compare the answers themselves."""
    monkeypatch.setattr(saved_model_module, "_verify_results", lambda *_: None)


@pytest.mark.slow
@pytest.mark.usefixtures("unverified")
def test_an_ensemble_is_exported(translator: kt.Translator, tmp_path: Path) -> None:
    model = type(translator.model).from_config(translator.model.get_config())  # has other random weights
    ensemble = kt.models.Ensemble([translator.model, model])
    joined = kt.Translator(**{**translator.arguments, "model": ensemble})
    served = ServedModel(export_saved_model(joined, tmp_path / "both"))
    texts = ["a dog sat", "the cat"]
    assert served.translate(texts) == joined.translate(texts)


def executors(version: Path) -> set[bytes]:
    """Read which executors run the steps of searches: loops with products, and without another loop."""
    [graph] = SavedModel.FromString((version / "saved_model.pb").read_bytes()).meta_graphs
    functions = {each.signature.name: each.node_def for each in graph.graph_def.library.function}
    bodies = [node.attr["body"].func for nodes in functions.values() for node in nodes if "While" in node.op]
    return {
        body.attr["_executor"].s
        for body in bodies
        if not any("While" in node.op for node in functions[body.name])
        and any(node.op.endswith("MatMul") for node in functions[body.name])
    }


@pytest.mark.slow
@pytest.mark.parametrize("optimize", ["float32", "xla"])
def test_threads_search_for_parts_of_a_batch(
    exported: Path, translator: kt.Translator, tmp_path: Path, optimize: str
) -> None:
    version = export_saved_model(translator, tmp_path / "tiny", ["a dog", "the cat"], optimize, threads=2)
    assert executors(exported) == {b""}
    assert b"MapDefun" in (version / "saved_model.pb").read_bytes()
    if optimize == "float32":
        assert executors(version) == {b"SINGLE_THREADED_EXECUTOR"}
        # A product and its bias are one operation, which for one row stays on the thread.
        assert b"_FusedMatMul" in (version / "saved_model.pb").read_bytes()
        assert b"_FusedMatMul" not in (exported / "saved_model.pb").read_bytes()
    texts = ["a rat sat", "", "the dog", "a cat", "cats ran"]
    expected = [text.encode() for text in translator.translate(texts)]
    # As a server does, without Python's functions.
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta_graph = tf.compat.v1.saved_model.load(session, ["serve"], str(version))
        signature = meta_graph.signature_def["serving_default"]
        for number in range(len(texts) + 1):
            feed = {signature.inputs["text"].name: texts[:number]}
            answers = session.run(signature.outputs["output"].name, feed).tolist()
            assert answers == expected[:number]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [None, 2])
def test_bfloat16_halves_the_weights(
    exported: Path, translator: kt.Translator, tmp_path: Path, threads: int | None
) -> None:
    before = translator.model.get_weights()
    # All signatures are verified, with rounded weights.
    examples = ["a dog", "the cat ran over it"]
    version = export_saved_model(translator, tmp_path / "tiny", examples, "bfloat16", threads)
    for old, new in zip(before, translator.model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    dtypes = {(len(shape) > 1, dtype) for shape, dtype in variables(version).values() if dtype.is_floating}
    assert dtypes == {(True, tf.bfloat16), (False, tf.float32)}
    assert num_bytes(version) < 0.7 * num_bytes(exported)
    texts = ["a rat sat", "", "the dog"]
    served = ServedModel(version).translate_with_scores(texts)
    scores = [answer.score for answer in translator.translate_with_scores(texts)]
    assert [answer.score for answer in served] == pytest.approx(scores, abs=0.1)


@pytest.mark.slow
def test_a_compiled_search_takes_sources_of_each_bucket(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without the verification, which compiles for more sizes.
    monkeypatch.setattr(saved_model_module, "_verify_results", lambda *_: None)
    served = ServedModel(export_saved_model(translator, tmp_path / "tiny", [], "xla"))
    # With its end token it is one token longer than the first bucket.
    text = "a dog sat on rats"[:16]
    [answer], [expected] = (each.translate_with_scores([text]) for each in (served, translator))
    assert answer.text == expected.text
    assert answer.score == pytest.approx(expected.score, abs=1e-5)


@pytest.mark.slow
def test_subwords_need_only_the_operations_of_tensorflow_text(
    subword_translator: kt.Translator, tmp_path: Path
) -> None:
    version = export_saved_model(subword_translator, tmp_path / "tiny", ["a dog sat"])
    served = ServedModel(version).translate_with_scores(["a cat", "a dog sat"])
    assert [answer.text for answer in served] == subword_translator.translate(["a cat", "a dog sat"])


@pytest.mark.slow
def test_letters_with_separate_marks_are_read_in_an_export(tmp_path: Path) -> None:
    tokenizer = kt.text.CharacterTokenizer.train(["ou\u00fbt\u1ec7"])
    size = tokenizer.vocabulary_size
    model = kt.Transformer(size, size, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16)
    translator = kt.Translator(model, tokenizer, tokenizer, max_target_length=8)
    served = ServedModel(export_saved_model(translator, tmp_path / "tiny", ["u\u0302te\u0323\u0302"]))
    alignments = served.align(["u\u0302te\u0323\u0302", "\u00fbt\u1ec7"])
    assert {alignment.source_tokens[:3] for alignment in alignments} == {("\u00fb", "t", "\u1ec7")}


@pytest.mark.slow
def test_a_vocabulary_of_both_languages_is_stored_once(
    subword_translator: kt.Translator, tmp_path: Path
) -> None:
    # As a user may have loaded them: two objects.
    copied = subword_translator.with_changes(target_tokenizer=copy.copy(subword_translator.source_tokenizer))
    version = export_saved_model(copied, tmp_path / "tiny", ["a dog sat"])
    assert [path.name for path in version.joinpath("assets").iterdir()] == ["vocabulary.spm"]
    content = version.joinpath("assets/vocabulary.spm").read_bytes()
    # TensorFlow stores it in the graph and in the function that creates the tokenizer.
    assert version.joinpath("saved_model.pb").read_bytes().count(content) == 2
    assert ServedModel(version).translate(["a dog sat"]) == subword_translator.translate(["a dog sat"])


def test_versions_count_up(export: Export, tmp_path: Path) -> None:
    for name in ("2", "10", ".partial-11", "notes"):
        (tmp_path / name).mkdir()
    assert export(tmp_path) == tmp_path / "11"
    assert export(tmp_path) == tmp_path / "12"


def test_a_wrong_export_never_appears(
    export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise ExportError("differs")

    monkeypatch.setattr(saved_model_module, "_verify_results", refuse)
    with pytest.raises(ExportError, match="differs"):
        export(tmp_path / "tiny", ["a dog"])
    assert list(tmp_path.iterdir()) == []


def test_two_exports_at_once_do_not_mix(
    export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a number of its own, in the order in which they began."""

    def write_slowly(translator: object, directory: Path, *options: object) -> None:
        (directory / "graph").write_text("slow")
        monkeypatch.setattr(saved_model_module, "_write_graphs", write_fast)
        assert export(tmp_path / "tiny") == tmp_path / "tiny/2"

    def write_fast(translator: object, directory: Path, *options: object) -> None:
        (directory / "graph").write_text("fast")

    monkeypatch.setattr(saved_model_module, "_write_graphs", write_slowly)
    assert export(tmp_path / "tiny") == tmp_path / "tiny/1"
    assert [(tmp_path / f"tiny/{number}/graph").read_text() for number in (1, 2)] == ["slow", "fast"]
    assert sorted(path.name for path in (tmp_path / "tiny").iterdir()) == ["1", "2", "models.config"]


def test_the_directory_of_a_version_is_refused(exported: Path, translator: kt.Translator) -> None:
    before = sorted(exported.rglob("*"))
    with pytest.raises(InputError, match=rf"Received: {exported}, a version\."):
        export_saved_model(translator, exported)
    assert sorted(exported.rglob("*")) == before


def test_what_cannot_be_compared_is_refused(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Random(kt.decoding.GreedySearch):
        is_random = True

    sampling = translator.with_changes(search=Random())
    with pytest.raises(ValueError, match=r"same output each time, or have a `seed`.* Received: Random\."):
        export_saved_model(sampling, tmp_path / "tiny")
    with pytest.raises(ValueError, match=r"`optimize` must be one of .* Received: optimize='int4'\."):
        export_saved_model(translator, tmp_path / "tiny", optimize="int4")
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(InputError, match=r"needs the TensorFlow backend.* Received: KERAS_BACKEND=jax"):
        export_saved_model(translator, tmp_path / "tiny")
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_be_written_is_named(export: Export, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(InputError, match=r"Cannot write .*file/tiny: Not a directory"):
        export(tmp_path / "file" / "tiny")


@pytest.mark.slow
def test_a_disk_that_is_full_is_named(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", full)
    with pytest.raises(InputError, match=r"Cannot write .*: No space left on device"):
        export_saved_model(translator, tmp_path / "tiny", ["a dog"])
    assert not (tmp_path / "tiny").exists()


@pytest.mark.parametrize("name", ["de_en", 'a "b" \\c', "ä"])
def test_a_server_reads_the_configuration(export: Export, tmp_path: Path, name: str) -> None:
    text = (export(tmp_path / name).parent / "models.config").read_text(encoding="utf-8")
    parsed = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    [config] = parsed.model_config_list.config
    assert (config.name, config.base_path) == (name, f"/models/{name}")
    assert config.model_platform == "tensorflow"
    assert not config.version_labels
    lines = [line.strip() for line in text.splitlines()]
    hints = [line.removeprefix("#   ") for line in lines if line.startswith("#   ")]
    hinted = text_format.Parse("\n".join(hints), model_server_config_pb2.ModelConfig())
    assert list(hinted.model_version_policy.specific.versions) == [1, 2]
    assert dict(hinted.version_labels) == {"stable": 1}


def test_a_configuration_that_was_edited_stays(export: Export, tmp_path: Path) -> None:
    (tmp_path / "models.config").write_text("pinned to version 1")
    export(tmp_path)
    assert (tmp_path / "models.config").read_text() == "pinned to version 1"


def test_a_model_has_the_name_of_its_directory(
    export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "en_de/sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "en_de")
    monkeypatch.chdir(tmp_path / "en_de/sub")
    for path, name in (("..", "en_de"), (".", "sub"), ("../../link", "link")):
        assert (export(Path(path)) / "README.md").read_text().startswith(f"# {name}\n")


def warmup_requests(version: Path) -> list[Any]:
    records = tf.data.TFRecordDataset(str(version / WARMUP_FILE)).as_numpy_iterator()
    return [prediction_log_pb2.PredictionLog.FromString(record).predict_log.request for record in records]


def test_warmup_requests_are_those_of_the_examples(
    export: Export, translator: kt.Translator, tmp_path: Path
) -> None:
    texts = ["a dog", "läuft"]
    requests = warmup_requests(export(tmp_path / "de_en", texts))
    assert {request.model_spec.name for request in requests} == {"de_en"}
    sides = {"text": texts, "output": translator.translate(texts)}
    wanted = {name: [text.encode() for text in column] for name, column in sides.items()}
    wanted |= {"max_length": [7, 7], "length_penalty": [1.0, 1.0], "num_hypotheses": [2, 2]}
    for name, columns in NAMES.items():
        batches = [r.inputs for r in requests if r.model_spec.signature_name == name]
        assert len(batches) == 3
        for column in columns:
            first, second = wanted[column]
            values = [tf.make_ndarray(batch[column]).tolist() for batch in batches]
            assert values == [[first], [second], [first, second]]


def test_a_compiled_search_is_warm_for_all_batch_sizes_of_each_length(export: Export, tmp_path: Path) -> None:
    requests = warmup_requests(export(tmp_path, ["a dog", "a rat", "a dog " * 3], optimize="xla"))
    asked = [tf.make_ndarray(each.inputs["text"]).tolist() for each in requests]
    for text in (b"a rat", b"a dog " * 3):  # padded to 16 and 20 tokens
        sizes = {len(texts) for texts in asked if {*texts} == {text}}
        assert sizes == {1, 2, 4, 8, 16, 32}


def test_a_single_example_is_asked_once(export: Export, tmp_path: Path) -> None:
    assert len(warmup_requests(export(tmp_path, ["a dog"]))) == len(NAMES)
    assert warmup_requests(export(tmp_path, ["\ud800"]))  # half a surrogate is no error


def test_without_examples_the_requests_are_of_the_vocabulary(export: Export, tmp_path: Path) -> None:
    version = export(tmp_path / "tiny")
    requests = warmup_requests(version)
    assert len(requests) == len(NAMES)
    [[text]] = {tuple(tf.make_ndarray(request.inputs["text"]).tolist()) for request in requests}
    assert text.decode() in (version / "README.md").read_text(encoding="utf-8")
    assert text


@pytest.mark.slow
def test_a_loaded_export_answers_its_requests(exported: Path) -> None:
    loaded = tf.saved_model.load(str(exported))
    for request in warmup_requests(exported):
        columns = {name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()}
        scores = loaded.signatures[request.model_spec.signature_name](**columns)["score"]
        assert len(scores) == len(columns["text"])


def readme(version: Path) -> str:
    return (version / "README.md").read_text(encoding="utf-8")


def test_requests_of_the_readme_are_json_that_a_shell_leaves_alone(
    export: Export, translator: kt.Translator, tmp_path: Path
) -> None:
    text = 'it\'s "here"'
    [output] = translator.translate([text])
    page = readme(export(tmp_path / "en_fr", [text]))
    requests = re.findall(r"curl -d '(.*)' http://localhost:8501/v1/models/en_fr:predict", page)
    assert not any("'" in request for request in requests)
    options = {"max_length": [7], "length_penalty": [1.0], "num_hypotheses": [2]}
    assert [json.loads(request) for request in requests] == [
        {"instances": [text]},
        {"signature_name": "n_best", "inputs": {"text": [text]}},
        {"signature_name": "score", "inputs": {"text": [text], "output": [output]}},
        {"signature_name": "search", "inputs": {"text": [text], **options}},
    ]


def test_the_readme_describes_the_signatures(exported: Path) -> None:
    rows = [line for line in readme(exported).splitlines() if line.startswith("| `")]
    signatures = tf.saved_model.load(str(exported)).signatures
    assert sorted(row.split("`")[1] for row in rows) == sorted(signatures)
    for row in rows:
        serve = signatures[row.split("`")[1]]
        names = (*serve.structured_input_signature[1], *serve.structured_outputs)
        assert all(f"`{name}`" in row for name in names)


@pytest.mark.parametrize("name", ["tiny", 'it\'s "$HOME"'])
def test_the_programs_of_the_readme_are_python_and_shell(export: Export, tmp_path: Path, name: str) -> None:
    page = readme(export(tmp_path / name, ["a"]))
    blocks = re.findall(r"(?:^    .*\n|^\n)+", page, re.MULTILINE)
    programs = [block for block in blocks if "import" in block]
    assert len(programs) == 2
    strings = set()
    for program in programs:
        nodes = ast.walk(ast.parse(textwrap.dedent(program)))
        strings |= {node.value for node in nodes if isinstance(node, ast.Constant)}
    assert {name, f"{name}/1"} <= strings
    command = next(block for block in blocks if "docker run" in block)
    words = shlex.split(command.replace("$PWD", "PWD").replace("\\$", "$"))
    assert {f"PWD/{name}:/models/{name}", f"MODEL_NAME={name}"} <= {*words}


def test_the_readme_names_the_version_the_examples_and_the_limits(exported: Path) -> None:
    page = readme(exported)
    assert "from the directory that holds `tiny`:" in page
    assert '-v "$PWD/tiny:/models/tiny"' in page
    assert 'tf.saved_model.load("tiny/1")' in page
    assert str(exported.parent.parent) not in page
    assert '{"instances": ["a dog"]}' in page
    assert "n is 2;" in page
    assert "of which 6 tokens are read" in page
    assert "Outputs are cut off at 7 tokens." in page


def test_the_readme_is_enough_for_an_operator(exported: Path) -> None:
    page = readme(exported)
    assert "A source is read up to 20 tokens" in page
    commands = re.findall(r"tensorflow/serving\S*", page)
    assert commands == ["tensorflow/serving:2.20.0"] * 2
    assert "sha256sum --check SHA256SUMS" in page
    # The state answers 200 whatever it is, and gRPC's health service has this name in the server's code.
    assert "livenessProbe:\n      grpc: {port: 8500, service: PredictionService}" in page.replace(
        "    ", "", 1
    )
    assert page.count('httpGet: {path: "/v1/models/tiny/metadata", port: 8501}') == 2
    for words in (
        "--enable_grpc_healthcheck_service",
        "--monitoring_config_file",
        "model_version_policy",
        " MB.",
    ):
        assert words in page
    assert f"The warm-up sends {len(warmup_requests(exported))} requests" in page
    assert "requests of up to 2 rows" in page


@pytest.mark.slow
def test_the_readme_says_what_is_particular(
    export: Export, subword_translator: kt.Translator, tmp_path: Path
) -> None:
    plain = readme(export(tmp_path / "plain"))
    particular = {"bfloat16": "half the size", "xla": "--xla_cpu_compilation"}
    for optimize, words in particular.items():
        page = readme(export(tmp_path / optimize, optimize=optimize))
        assert words in page
        assert words not in plain
        assert ("| `search` |" in page) == (optimize != "xla")
    assert "up to 3 threads" in readme(export(tmp_path / "threads", threads=3))
    assert "threads" not in plain
    assert "import tensorflow_text" in readme(export(tmp_path / "subwords", translator=subword_translator))
    assert "import tensorflow_text" not in plain


def test_commands_of_the_readme_hold_for_any_name(export: Export, tmp_path: Path) -> None:
    page = readme(export(tmp_path / "en de é"))
    assert "-e 'MODEL_NAME=en de é' tensorflow/serving" in page
    assert page.count("http://localhost:8501/v1/models/en%20de%20%C3%A9:predict") == 4
    assert "'--model_config_file=/models/en de é/models.config'" in page


@pytest.mark.slow
@pytest.mark.usefixtures("unverified")
def test_a_quantized_model_is_exported(translator: kt.Translator, tmp_path: Path) -> None:
    model = kt.Transformer.from_config(translator.model.get_config())
    model.set_weights(translator.model.get_weights())
    model.quantize("int8")
    tokenizers = translator.source_tokenizer, translator.target_tokenizer
    quantized = kt.Translator(model, *tokenizers, search=kt.decoding.GreedySearch(), max_target_length=9)
    texts = ["a rat sat", "", "the dog"]
    exported = ServedModel(export_saved_model(quantized, tmp_path / "model"))
    assert exported.translate(texts) == quantized.translate(texts)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"optimize": "bfloat16"}, {"threads": 2}], ids=str)
def test_factors_of_lora_are_exported(
    translator: kt.Translator, options: dict[str, Any], tmp_path: Path
) -> None:
    """A user adapts a translator, saves it, loads it elsewhere, and exports that."""
    model = kt.Transformer.from_config(translator.model.get_config())
    talkative(model, seed=3).enable_lora(2)
    talkative(model, seed=4)
    tokenizers = translator.source_tokenizer, translator.target_tokenizer
    adapted = kt.Translator(model, *tokenizers, max_target_length=7)
    adapted.save(tmp_path / "adapted")
    loaded, texts = kt.Translator.load(tmp_path / "adapted"), ["a rat sat", "", "the dog"]
    assert loaded.translate(texts) == adapted.translate(texts) != translator.translate(texts)
    exported = ServedModel(export_saved_model(loaded, tmp_path / "model", texts, **options))
    assert exported.translate(texts) == adapted.translate(texts)
