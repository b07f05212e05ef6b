"""Finding and loading an export from Python."""

from pathlib import Path

import pytest
import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.export.served_model import ServedModel, saved_model_directory


def make_parts(directory: Path, content: bytes = b"") -> None:
    for part in ("saved_model.pb", "variables/variables.index"):
        (directory / part).parent.mkdir(parents=True, exist_ok=True)
        (directory / part).write_bytes(content)


def test_the_highest_version_is_taken(tmp_path: Path) -> None:
    for version in ("9", "10"):
        make_parts(tmp_path / version)
    assert saved_model_directory(tmp_path) == tmp_path / "10"
    assert saved_model_directory(tmp_path / "9") == tmp_path / "9"


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{tmp_path} is not the directory of a SavedModel"):
        saved_model_directory(tmp_path)


@pytest.mark.parametrize("part", ["saved_model.pb", "variables/variables.index"])
def test_a_half_written_version_is_refused(tmp_path: Path, part: str) -> None:
    make_parts(tmp_path / "1")
    (tmp_path / "1" / part).unlink()
    with pytest.raises(InputError, match=rf"{tmp_path}/1 is not a whole SavedModel: it has no {part}\."):
        saved_model_directory(tmp_path)


def test_another_saved_model_is_refused(tmp_path: Path) -> None:
    module = tf.Module()
    double = tf.function(lambda text: text, input_signature=[tf.TensorSpec([None], tf.int32, name="text")])
    tf.saved_model.save(module, str(tmp_path / "a"), {"predict": double.get_concrete_function()})
    with pytest.raises(InputError, match=r"a has no signature serving_default\. It has: predict\."):
        ServedModel(tmp_path / "a")
    tf.saved_model.save(module, str(tmp_path / "b"), {"serving_default": double.get_concrete_function()})
    with pytest.raises(InputError, match=r"b: serving_default must take .*string.* Received: .*int32"):
        ServedModel(tmp_path / "b")


def test_more_hypotheses_than_there_are_are_refused(exported: Path) -> None:
    with pytest.raises(ValueError, match=r"between 1 and the 2 hypotheses .* Received: num=3\."):
        ServedModel(exported).n_best(["a"], num=3)


def test_a_damaged_model_is_named(tmp_path: Path) -> None:
    make_parts(tmp_path, b"damaged")
    with pytest.raises(InputError, match=f"{tmp_path} cannot be loaded as a SavedModel"):
        ServedModel(tmp_path)
