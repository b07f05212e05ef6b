"""What the outputs of the signatures mean."""

from pathlib import Path

import tensorflow as tf

from keras_transformer.export.serving_module import SIGNATURES


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
