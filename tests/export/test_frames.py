"""A translator of frames outside of Keras: its SavedModel is asked by a client that has no Keras."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.data import FrameNormalizer
from keras_transformer.decoding import BeamSearch
from keras_transformer.errors import ExportError
from keras_transformer.text import CharacterTokenizer

CLIENT = """
import json, sys
sys.modules.update({name: None for name in ("keras", "tf_keras", "keras_transformer", "jax")})
import numpy as np
import tensorflow as tf

serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
windows = [each for _, each in sorted(np.load(sys.argv[2]).items())]

def ask(several):
    size = max(map(len, several))
    features = np.full((len(several), size, 3), np.nan, "float32")
    mask = np.zeros((len(several), size), bool)
    for number, window in enumerate(several):
        features[number, : len(window)], mask[number, : len(window)] = window, True
    found = serve(features=tf.constant(features), padding_mask=tf.constant(mask))
    return [text.decode() for text in found["output"].numpy()]

answers = {
    "alone": [ask([window])[0] for window in windows],
    "together": [text for start in range(0, len(windows), 7) for text in ask(windows[start : start + 7])],
}
print(json.dumps(answers))
"""


def windows(count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    shapes = [(generator.integers(1, 21), 3) for _ in range(count)]
    return [generator.normal([5, 500, -1], [1, 50, 3], shape).astype("float32") for shape in shapes]


def make_translator(**options: Any) -> kt.Translator:
    keras.utils.set_random_seed(0)
    sizes = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 16}
    model = kt.Transformer(None, 8, encoder_feature_dim=3, **{**sizes, **options})
    for weight in model.weights:
        if len(weight.shape) > 1:
            weight.assign(2.0 * weight.value)
    reader, tokenizer = FrameNormalizer.adapt(windows(50)), CharacterTokenizer("wxyz")
    limits = {"max_source_length": 20, "max_target_length": 5}
    return kt.Translator(model, reader, tokenizer, search=BeamSearch(2), **limits)


@pytest.fixture(scope="module")
def translator() -> kt.Translator:
    return make_translator()


@pytest.mark.slow
@pytest.mark.parametrize(("options", "threads"), [({}, None), ({"source_convolutions": True}, 2)])
def test_a_client_without_keras_gets_the_answers_of_the_task(
    options: dict[str, Any], threads: int | None, tmp_path: Path
) -> None:
    translator, several = make_translator(**options), windows(200)
    wanted = translator.translate(several)
    assert len({*wanted}) > 3
    version = kt.export.export_saved_model(translator, tmp_path / "frames", several[:4], threads=threads)
    served = kt.export.ServedModel(version)
    assert served.translate(several) == wanted
    np.savez(tmp_path / "windows.npz", **{f"{number:03}": each for number, each in enumerate(several)})
    finished = subprocess.run(
        [sys.executable, "-c", CLIENT, str(version), str(tmp_path / "windows.npz")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(finished.stdout) == {"alone": wanted, "together": wanted}
    readme = (version / "README.md").read_text(encoding="utf-8")
    assert "`features`, float32 (b, s, w); `padding_mask`, bool (b, s)" in readme
    assert '"padding_mask": [true' in readme
    assert "read up to 20 frames." in readme
    specs = served._module.signatures["align"].structured_outputs
    assert {"attention", "source_tokens"} <= specs.keys()


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"source_convolutions": True}])
@pytest.mark.parametrize("engine", ["litert", "onnx"])
def test_single_files_read_frames_as_they_were_measured(
    options: dict[str, Any], engine: str, tmp_path: Path
) -> None:
    if engine == "onnx":
        pytest.importorskip("tf2onnx")
        runtime = pytest.importorskip("onnxruntime")
    translator = make_translator(**options)
    write = {"litert": kt.export.export_litert, "onnx": kt.export.export_onnx}[engine]
    path = write(translator, tmp_path / f"model.{engine}", windows(6), source_length=12, batch_size=2)
    if engine == "onnx":
        inputs = runtime.InferenceSession(path).get_inputs()
        assert [(each.name, each.shape) for each in inputs] == [
            ("features", [2, 12, 3]),
            ("padding_mask", [2, 12]),
        ]


def test_what_frames_do_not_have_is_refused(translator: kt.Translator, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`optimize` must not be 'xla' for a model that reads frames"):
        kt.export.export_saved_model(translator, tmp_path / "frames", optimize="xla")
    with pytest.raises((ExportError, ValueError), match="encoder_feature_dim=3"):
        kt.export.export_ctranslate2(translator, tmp_path / "ctranslate2")
