"""A file that the ONNX runtime answers from."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.export import ExportError, export_onnx
from keras_transformer.export import fixed_size as onnx_model
from keras_transformer.export.fixed_size import GreedyGraph, greedy_translator

TEXTS = ["the rat ran", "a cat"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_file_answers_as_greedy_search_does(translator: kt.Translator, tmp_path: Path) -> None:
    pytest.importorskip("tf2onnx", reason="the extra `onnx` is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    path = export_onnx(
        translator, tmp_path / "tiny.onnx", ["a dog"], source_length=13, max_length=5, batch_size=2
    )
    assert [file.name for file in tmp_path.iterdir()] == ["tiny.onnx"]
    source_ids = greedy_translator(translator, 13).token_ids(TEXTS)
    padded = np.pad(source_ids, [(0, 0), (0, 13 - source_ids.shape[1])])
    token_ids, score = runtime.InferenceSession(path).run(["token_ids", "score"], {"source_ids": padded})
    wanted = GreedyGraph(greedy_translator(translator, 13, 5), 2).function()(padded)
    np.testing.assert_array_equal(token_ids, wanted["token_ids"])
    np.testing.assert_allclose(score, wanted["score"], rtol=1e-4)


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


def test_an_operation_that_onnx_lacks_is_named(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(content: bytes, providers: list[str]) -> None:
        raise RefusalError(f"{content!r} with {providers}\nand more")

    names = ("Fail", "InvalidGraph", "NotImplemented", "InvalidArgument")
    errors = SimpleNamespace(**dict.fromkeys(names, RefusalError))
    runtime = SimpleNamespace(
        InferenceSession=refuse, capi=SimpleNamespace(onnxruntime_pybind11_state=errors)
    )
    monkeypatch.setitem(sys.modules, "tf2onnx", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    monkeypatch.setattr(onnx_model, "_convert", lambda tf2onnx, graph: b"model")
    with pytest.raises(ExportError, match=r"every operation .* Received: b'model' with \['CPUExec"):
        export_onnx(translator, tmp_path / "tiny.onnx")
    assert list(tmp_path.iterdir()) == []
