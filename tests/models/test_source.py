import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer.models.source import read_source, source_inputs

IDS = np.array([[5, 3, 0], [4, 0, 0]])
FRAMES = np.zeros((2, 3, 7), "float32")


def test_inputs_of_token_ids() -> None:
    source = source_inputs("encoder_", None)
    assert list(source.inputs) == ["encoder_token_ids"]
    assert (source.values.dtype, tuple(source.padding_mask.shape)) == ("int32", (None, None))


def test_inputs_of_frames() -> None:
    source = source_inputs("", 7)
    assert list(source.inputs) == ["features", "padding_mask"]
    assert tuple(source.values.shape) == (None, None, 7)
    assert source.padding_mask.dtype == "bool"


def test_the_mask_of_ids_and_of_frames() -> None:
    assert array(read_source(IDS, None, None)[1]).astype(int).tolist() == [[1, 1, 0], [1, 0, 0]]
    assert array(read_source(FRAMES, None, 7)[1]).astype(int).tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
@pytest.mark.parametrize(("values", "width"), [(IDS, None), (FRAMES, 7)])
def test_an_explicit_mask_wins(values: Any, width: int | None, dtype: str) -> None:
    wanted = np.array([[0, 1, 1], [1, 1, 0]])
    _, mask = read_source(values, wanted.astype(dtype), width)
    assert keras.backend.standardize_dtype(mask.dtype) == "bool"
    assert array(mask).astype(int).tolist() == wanted.tolist()


@pytest.mark.parametrize("shape", [(2, 4), (2, 1), (1, 3), (3,), (2, 1, 3)])
def test_masks_of_another_shape(shape: tuple[int, ...]) -> None:
    message = f"Received: padding_mask of shape {shape}, source of shape (2, 3, 7)."
    with pytest.raises(ValueError, match=re.escape(message)):
        read_source(FRAMES, np.ones(shape), 7)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 5), (7,)])
def test_features_of_another_shape(shape: tuple[int, ...]) -> None:
    message = f"`encoder_inputs` must be features of shape (b, s, 7). Received: shape={shape}."
    with pytest.raises(ValueError, match=re.escape(message)):
        read_source(np.zeros(shape, "float32"), None, 7)


def test_ids_of_another_shape_or_type() -> None:
    wanted = "`encoder_inputs` must be integer token ids of shape (b, s). Received: "
    with pytest.raises(ValueError, match=re.escape(wanted + "shape=(2, 3, 7).")):
        read_source(FRAMES, None, None)
    with pytest.raises(TypeError, match=re.escape(wanted + "dtype=float32.")):
        read_source(FRAMES[:, :, 0], None, None)
