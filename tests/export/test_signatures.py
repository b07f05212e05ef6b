"""What the outputs of the signatures mean."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_transformer.decoding import PairScore, Translation
from keras_transformer.decoding.log_probabilities import LOWEST_SCORE
from keras_transformer.export.serving_module import SIGNATURES, read_answers

TEXTS = ["a", ""]


def test_translations_and_pairs() -> None:
    scores = np.array([-1.5, 0.0], "float32")
    outputs = {"score": scores, "output": np.array([b"\xc3\xa4", b""])}
    assert read_answers("serving_default", TEXTS, outputs) == [Translation("ä", -1.5), Translation("", 0.0)]
    outputs = {"score": scores, "num_tokens": np.array([2, 0])}
    assert read_answers("score", TEXTS, outputs) == [PairScore(-1.5, 2), PairScore(0.0, 0)]


def test_hypotheses() -> None:
    outputs = {
        "output": np.array([[b"x", b""], [b"", b""]]),
        "score": np.array([[-1.0, LOWEST_SCORE], [0.0, 0.0]], "float32"),
    }
    assert read_answers("n_best", TEXTS, outputs) == [[Translation("x", -1.0)], [Translation("", 0.0)]]


def test_alignments() -> None:
    outputs = {
        "output": np.array([b"x", b""]),
        "score": np.array([-1.0, 0.0]),
        "source_tokens": np.array([[b"a", b"[END]"], [b"", b""]]),
        "output_tokens": np.array([[b"x"], [b""]]),
        "attention": np.ones((2, 1, 2)),
    }
    first, second = read_answers("align", TEXTS, outputs)
    assert (first.source_tokens, first.output_tokens) == (("a", "[END]"), ("x",))
    assert first.attention.shape == (1, 2)
    assert second.attention.shape == (0, 0)


def test_an_export_has_the_documented_signatures(exported: Path) -> None:
    loaded = tf.saved_model.load(str(exported)).signatures
    assert set(loaded) == set(SIGNATURES)
    for name, signature in SIGNATURES.items():
        serve = loaded[name]
        for documented, specs in (
            (signature.inputs, serve.structured_input_signature[1]),
            (signature.outputs, serve.structured_outputs),
        ):
            assert {key: (spec.dtype.name, spec.shape.rank) for key, spec in specs.items()} == documented
            assert {spec.shape[0] for spec in specs.values()} == {None}
