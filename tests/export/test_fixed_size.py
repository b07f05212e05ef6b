"""Single files for LiteRT and ONNX: greedy decoding in one loop of fixed sizes."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.decoding import BeamSearch, Constraints, GreedySearch
from keras_transformer.errors import ExportError, InputError
from keras_transformer.export import export_litert, export_onnx

TEXTS = ["the rat ran", "a cat"]
SIZES: dict[str, Any] = {"source_length": 13, "max_length": 5, "batch_size": 2}
Outputs = dict[str, np.ndarray]


def with_search(translator: kt.Translator, search: Any, **limits: int) -> kt.Translator:
    return kt.Translator(
        translator.model, translator.source_tokenizer, translator.target_tokenizer, search=search, **limits
    )


def expected(translator: kt.Translator, search: GreedySearch) -> tuple[np.ndarray, np.ndarray]:
    """Return the sources padded to 13 tokens, and the token ids and scores of greedy search."""
    greedy = with_search(translator, search, max_source_length=13, max_target_length=5)
    token_ids = greedy.token_ids(TEXTS)
    result = greedy.generate(token_ids)
    padded = np.pad(token_ids, [(0, 0), (0, 13 - token_ids.shape[1])])
    return padded, np.array(result.token_ids)[:, 0], np.array(result.scores)[:, 0]


def test_a_litert_file_answers_as_greedy_search_does(translator: kt.Translator, tmp_path: Path) -> None:
    path = tmp_path / "new" / "tiny.tflite"
    options = {"length_penalty": 1.0, "constraints": Constraints(min_length=3, max_length_ratio=0.7)}
    beam = with_search(translator, BeamSearch(3, **options))
    assert export_litert(beam, path, ["a dog"], **SIZES) == path
    assert [file.name for file in path.parent.iterdir()] == ["tiny.tflite"]
    content = path.read_bytes()
    assert b"Flex" not in content  # an operation of TensorFlow, which LiteRT itself has not
    source_ids, token_ids, scores = expected(translator, GreedySearch(**options))
    with pytest.warns(UserWarning, match="tf.lite.Interpreter is deprecated"):
        interpreter = tf.lite.Interpreter(model_content=content)
    answer = interpreter.get_signature_runner("serving_default")(source_ids=source_ids)
    np.testing.assert_array_equal(answer["token_ids"], token_ids)
    np.testing.assert_allclose(answer["score"], scores, rtol=1e-4)
    operations = [details["op_name"] for details in interpreter._get_ops_details()]
    assert operations.count("WHILE") == 1
    assert not any(details["dtype"] is np.float64 for details in interpreter.get_tensor_details())


@pytest.mark.slow
def test_sizes_are_the_limits_of_the_translator_if_none_are_given(
    translator: kt.Translator, tmp_path: Path
) -> None:
    path = export_litert(translator, tmp_path / "tiny.tflite")
    with pytest.warns(UserWarning, match="tf.lite.Interpreter is deprecated"):
        interpreter = tf.lite.Interpreter(model_path=str(path))
    runner = interpreter.get_signature_runner("serving_default")
    assert [details["shape"].tolist() for details in runner.get_input_details().values()] == [[1, 20]]
    shapes = {name: details["shape"].tolist() for name, details in runner.get_output_details().items()}
    assert shapes["token_ids"] == [1, 7]


@pytest.mark.slow
@pytest.mark.parametrize("positions", ["relative", "relative_sinusoidal"])
@pytest.mark.parametrize("export", [export_litert, export_onnx])
def test_a_model_with_unusual_options(
    translator: kt.Translator, tmp_path: Path, export: Callable[..., Path], positions: str
) -> None:
    if export is export_onnx:
        pytest.importorskip("tf2onnx", reason="the extra `onnx` is not installed")
    sizes = translator.source_tokenizer.vocabulary_size, translator.target_tokenizer.vocabulary_size
    model = kt.Transformer(
        *sizes,
        num_layers=1,
        hidden_dim=10,
        num_heads=3,
        head_dim=4,
        intermediate_dim=8,
        gated=True,
        use_bias=False,
        final_norm=True,
        activation="gelu_tanh",
        positions=positions,
        scale_embeddings=False,
        normalize_embeddings=True,
        output_bias=True,
    )
    model.output_projection.bias.assign(np.random.default_rng(0).normal(size=sizes[1]))
    greedy = GreedySearch(special_ids=translator.search.special_ids)
    changed = kt.Translator(model, translator.source_tokenizer, translator.target_tokenizer, search=greedy)
    assert export(changed, tmp_path / "file", ["a dog"], **SIZES).exists()  # it compares the answers


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("export", [export_litert, export_onnx])
def test_int8_weights_take_a_third_and_change_little(
    translator: kt.Translator, tmp_path: Path, export: Callable[..., Path]
) -> None:
    if export is export_onnx:
        pytest.importorskip("tf2onnx", reason="the extra `onnx` is not installed")
    keras.utils.set_random_seed(1)
    sizes = translator.source_tokenizer.vocabulary_size, translator.target_tokenizer.vocabulary_size
    model = kt.Transformer(*sizes, num_layers=2, hidden_dim=128, num_heads=2, intermediate_dim=512)
    greedy = GreedySearch(special_ids=translator.search.special_ids)
    large = kt.Translator(model, translator.source_tokenizer, translator.target_tokenizer, search=greedy)
    paths = [export(large, tmp_path / kind, TEXTS, optimize=kind, **SIZES) for kind in ("float32", "int8")]
    plain, rounded = (path.stat().st_size for path in paths)
    assert rounded < plain / 3
    source_ids, token_ids, scores = expected(large, greedy)
    received_ids, received_scores = answers(paths[1], source_ids)
    np.testing.assert_array_equal(received_ids, token_ids)
    np.testing.assert_allclose(received_scores, scores, rtol=0.05)
    assert not np.allclose(received_scores, scores, rtol=1e-5)


def answers(path: Path, source_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the token ids and scores of a file, whatever its kind."""
    if path.read_bytes()[4:8] != b"TFL3":
        import onnxruntime

        token_ids, scores = onnxruntime.InferenceSession(path).run(None, {"source_ids": source_ids})
        return token_ids, scores
    with pytest.warns(UserWarning, match="tf.lite.Interpreter is deprecated"):
        interpreter = tf.lite.Interpreter(model_content=path.read_bytes())
    answer = interpreter.get_signature_runner("serving_default")(source_ids=source_ids)
    return answer["token_ids"], answer["score"]


class ChangedInterpreter:
    """An interpreter that answers otherwise; it remembers what it was asked."""

    def __init__(self, change: Callable[[Outputs], object]) -> None:
        self.change, self.asked, self.make = change, [], tf.lite.Interpreter

    def __call__(self, **options: Any) -> "ChangedInterpreter":
        self.inner = self.make(**options)
        return self

    def allocate_tensors(self) -> None:
        self.inner.allocate_tensors()

    def get_signature_runner(self, name: str) -> Callable[..., Outputs]:
        run = self.inner.get_signature_runner(name)

        def ask(source_ids: np.ndarray) -> Outputs:
            self.asked.append(source_ids)
            outputs = {key: values.copy() for key, values in run(source_ids=source_ids).items()}
            self.change(outputs)
            return outputs

        return ask


def change_token(outputs: Outputs) -> None:
    outputs["token_ids"][-1, 1] += 1


def change_score(outputs: Outputs) -> None:
    outputs["score"][0] += 0.01


def change_last_digit(outputs: Outputs) -> None:
    outputs["score"][0] *= 1.00001


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_score, "LiteRT must return .* and the score .* for 'a dog'"),
        (change_last_digit, None),
    ],
)
def test_an_engine_that_answers_otherwise_is_noticed(
    translator: kt.Translator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Outputs], object],
    message: str | None,
) -> None:
    interpreter = ChangedInterpreter(change)
    monkeypatch.setattr(tf.lite, "Interpreter", interpreter)
    path = tmp_path / "tiny.tflite"
    if message is not None:
        with pytest.raises(ExportError, match=message):
            export_litert(translator, path, ["a dog", "the cat"], **SIZES)
        assert list(tmp_path.iterdir()) == []
        return
    export_litert(translator, path, ["a dog", "the cat"], **SIZES)
    # Every text is asked in full batches of the full length: two examples, and four hard texts.
    assert [source_ids.shape for source_ids in interpreter.asked] == [(2, 13)] * 3
    assert interpreter.asked[1][0].tolist() == [3] + [0] * 12


@pytest.mark.slow
def test_only_half_of_the_outputs_may_differ_with_int8_weights(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tf.lite, "Interpreter", ChangedInterpreter(change_token))
    options = {**SIZES, "batch_size": 1, "optimize": "int8"}
    with pytest.raises(ExportError, match=r"LiteRT must return .*, one of 6 texts of 6 that differ"):
        export_litert(translator, tmp_path / "tiny.tflite", TEXTS, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_operation_that_litert_lacks_is_named(translator: kt.Translator, tmp_path: Path) -> None:
    model = translator.model.with_dtype("mixed_bfloat16")
    half = kt.Translator(model, translator.source_tokenizer, translator.target_tokenizer)
    with pytest.raises(ExportError, match=r"LiteRT must have every operation .* Received: .*Gather"):
        export_litert(half, tmp_path / "tiny.tflite", source_length=5, max_length=3)
    assert list(tmp_path.iterdir()) == []


def test_what_makes_no_sense_is_refused(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tiny.tflite"
    with pytest.raises(ValueError, match=r"Received: max_source_length=1\."):
        export_litert(translator, path, source_length=1)
    with pytest.raises(ValueError, match=r"`batch_size` must be above zero. Received: batch_size=0"):
        export_litert(translator, path, batch_size=0)
    with pytest.raises(TypeError, match=r"`batch_size` must be an integer. Received: batch_size=1.5"):
        export_litert(translator, path, batch_size=1.5)
    with pytest.raises(ValueError, match=r"'float32', 'int8'\. Received: optimize='xla'"):
        export_litert(translator, path, optimize="xla")
    monkeypatch.setattr(kt.Transformer, "is_quantized", True)
    with pytest.raises(
        ValueError, match=r"LiteRT quantizes a model of floats itself.* Received: a quantized"
    ):
        export_litert(translator, path)
    monkeypatch.undo()
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(InputError, match=r"needs the TensorFlow backend.* Received: KERAS_BACKEND=jax"):
        export_litert(translator, path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_encoder_of_any_length_becomes_a_file_of_keras(tmp_path: Path) -> None:
    sizes = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 32}
    model = kt.EncoderModel(20, 3, pooling="mean", positions="learned", max_length=8, **sizes)
    model.export(str(tmp_path / "model.tflite"), format="litert", verbose=0)
    runner = tf.lite.Interpreter(str(tmp_path / "model.tflite")).get_signature_runner()
    [name] = runner.get_input_details()
    for ids in ([[5, 6, 7, 0]], [[5, 6, 7, 9, 4, 0, 0]]):
        [logits] = runner(**{name: np.array(ids, "int32")}).values()
        np.testing.assert_allclose(logits, np.asarray(model(np.array(ids))), atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_onnx_file_answers_as_greedy_search_does(translator: kt.Translator, tmp_path: Path) -> None:
    pytest.importorskip("tf2onnx", reason="the extra `onnx` is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    path = export_onnx(translator, tmp_path / "tiny.onnx", ["a dog"], **SIZES)
    assert [file.name for file in tmp_path.iterdir()] == ["tiny.onnx"]
    search = GreedySearch(length_penalty=translator.search.length_penalty)
    source_ids, token_ids, scores = expected(translator, search)
    answer = runtime.InferenceSession(path).run(None, {"source_ids": source_ids})
    np.testing.assert_array_equal(answer[0], token_ids)
    np.testing.assert_allclose(answer[1], scores, rtol=1e-4)


@pytest.mark.parametrize("name", ["tf2onnx", "onnxruntime"])
def test_a_package_that_is_missing_is_named(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for package in ("tf2onnx", "onnxruntime"):
        monkeypatch.setitem(sys.modules, package, None if package == name else SimpleNamespace())
    with pytest.raises(InputError, match=rf'the package {name}; in the clone: pip install "\.\[onnx\]"'):
        export_onnx(translator, tmp_path / "tiny.onnx")


class RefusalError(Exception):
    """What the runtime raises."""


@pytest.mark.parametrize("optimize", ["float32", "int8"])
def test_an_operation_that_onnx_lacks_is_named(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimize: str
) -> None:
    def refuse(content: bytes, providers: list[str]) -> None:
        raise RefusalError(f"{content!r} with {providers}\nand more")

    names = ("Fail", "InvalidGraph", "NotImplemented", "InvalidArgument")
    errors = SimpleNamespace(**dict.fromkeys(names, RefusalError))
    runtime = SimpleNamespace(
        InferenceSession=refuse, capi=SimpleNamespace(onnxruntime_pybind11_state=errors)
    )
    model = SimpleNamespace(SerializeToString=lambda: b"model", graph=SimpleNamespace(output=[]))
    convert = SimpleNamespace(from_function=lambda *_, **__: (model, None))
    monkeypatch.setitem(sys.modules, "tf2onnx", SimpleNamespace(convert=convert))
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    with pytest.raises(ExportError, match=r"every operation .* Received: b'model' with \['CPUExec"):
        export_onnx(translator, tmp_path / "tiny.onnx", optimize=optimize)
    assert list(tmp_path.iterdir()) == []
