"""Statistics of frames beside those of Keras and scikit-learn, and batches that train a model on frames."""

import copy
import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn.preprocessing import StandardScaler

from keras_transformer.data import FrameNormalizer, as_frames, translation_dataset
from keras_transformer.errors import InputError
from keras_transformer.text import CharacterTokenizer, Reader, Tokenizer

LENGTHS = [1, 2, 3, 5, 8, 8, 13, 21, 4, 4]


@pytest.fixture(scope="module")
def windows() -> list[np.ndarray]:
    """Windows of three features: one of large numbers, one of small, and one that never changes."""
    generator = np.random.default_rng(0)
    scale, mean = [50.0, 1e-3, 0.0], [1000.0, 0.0, 0.1]
    return [generator.normal(mean, scale, (length, 3)).astype("float32") for length in LENGTHS]


@pytest.fixture(scope="module")
def normalizer(windows: list[np.ndarray]) -> FrameNormalizer:
    return FrameNormalizer.adapt(windows)


TOKENIZER = CharacterTokenizer(list("ab"))
TEXTS = ["ab" * (number % 4) + "a" for number in range(len(LENGTHS))]


def test_the_statistics_are_those_of_scikit_learn_and_keras(
    windows: list[np.ndarray], normalizer: FrameNormalizer
) -> None:
    joined = np.concatenate(windows)
    scaler = StandardScaler().fit(joined.astype("float64"))
    np.testing.assert_allclose(normalizer.mean, scaler.mean_, rtol=1e-7)
    np.testing.assert_allclose(normalizer.variance[:2], scaler.var_[:2], rtol=1e-6)
    assert normalizer.variance[2] == 0.0
    np.testing.assert_allclose(normalizer(joined), scaler.transform(joined), atol=1e-4)
    layer = keras.layers.Normalization(mean=normalizer.mean[:2], variance=normalizer.variance[:2])
    np.testing.assert_allclose(normalizer(joined)[:, :2], layer(joined[:, :2]), atol=1e-5)


def test_a_constant_feature_becomes_zero_and_padding_counts_nowhere(windows: list[np.ndarray]) -> None:
    padded = np.full((len(windows), 30, 3), np.nan, "float32")
    for number, (row, window) in enumerate(zip(padded, windows, strict=True)):
        row[number : number + len(window)] = window  # padding on both sides
    found, wanted = FrameNormalizer.adapt(padded), FrameNormalizer.adapt(windows)
    assert found.fingerprint() == wanted.fingerprint()
    assert not np.any(found(np.concatenate(windows))[:, 2])
    assert all(map(np.array_equal, as_frames("frames", padded), windows))


def test_it_is_saved_copied_and_told_from_others(normalizer: FrameNormalizer, tmp_path: Path) -> None:
    normalizer.save(tmp_path / "frames")
    loaded = Reader.load(tmp_path / "frames")
    assert isinstance(loaded, FrameNormalizer)
    assert (loaded.mean, loaded.variance) == (normalizer.mean, normalizer.variance)
    assert loaded.fingerprint() == normalizer.fingerprint() == copy.deepcopy(normalizer).fingerprint()
    assert loaded.fingerprint() != FrameNormalizer.identity(3).fingerprint()
    with pytest.raises(InputError, match=r"must be of a Tokenizer\. Received: FrameNormalizer"):
        Tokenizer.load(tmp_path / "frames")


@pytest.mark.parametrize("content", ['{"mean": [1.0]}', '{"mean": [1.0], "variance": []}', "[]", "{"])
def test_damaged_statistics_are_refused(normalizer: FrameNormalizer, tmp_path: Path, content: str) -> None:
    normalizer.save(tmp_path / "frames")
    (tmp_path / "frames" / "statistics.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"statistics.json is damaged"):
        Reader.load(tmp_path / "frames")


@pytest.mark.parametrize(
    ("mean", "variance", "message"),
    [
        ([0.0], [1.0, 1.0], "mean of 1, variance of 2"),
        ([], [], "`mean` must be finite numbers|mean of 0"),
        ([0.0], [-1.0], "minimum -1.0"),
        ([np.nan], [1.0], "`mean` must be finite numbers"),
        (["a"], [1.0], "`mean` must be finite numbers"),
        ([[0.0]], [[1.0]], "`mean` must be finite numbers"),
    ],
)
def test_wrong_statistics_are_refused(mean: list, variance: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FrameNormalizer(mean, variance)


WRONG_FRAMES = {
    "one array": (np.ones((2, 3)), ValueError, r"`x\[0\]` must have the shape \(s, w\).*shape=\(3,\)"),
    "a number": (1.0, TypeError, "must be several arrays"),
    "a string": ("abc", TypeError, "must be several arrays"),
    "strings": (["ab"], TypeError, r"`x\[0\]` must hold numbers. Received: dtype=<U2"),
    "ragged": ([[[1.0], [1.0, 2.0]]], TypeError, r"`x\[0\]` must be an array"),
    "two widths": ([np.ones((2, 3)), np.ones((2, 4))], ValueError, r"`x\[1\]` must have the shape \(s, 3\)"),
    "no width": ([np.ones((2, 0))], ValueError, r"shape=\(2, 0\)"),
    "objects": ([np.array([[None]])], TypeError, "dtype=object"),
    "complex": ([np.ones((1, 1), complex)], TypeError, "dtype=complex128"),
    "NaN in a part": ([[[1.0, np.nan]]], ValueError, "Received: nan in frame 0, feature 1"),
    "NaN between": ([[[1.0], [np.nan], [1.0]]], ValueError, "Received: nan in frame 1, feature 0"),
    "infinity": ([[[np.nan], [np.inf]]], ValueError, "Received: inf in frame 1, feature 0"),
    "too large": ([[[1e300]]], ValueError, "Received: inf in frame 0"),
}


@pytest.mark.parametrize("name", WRONG_FRAMES)
def test_wrong_frames_are_refused(name: str) -> None:
    value, kind, message = WRONG_FRAMES[name]
    with pytest.raises(kind, match=message):
        as_frames("x", value)


def test_whole_numbers_and_no_frames_are_frames() -> None:
    found = as_frames(
        "x", [np.ones((2, 3), "uint8"), np.ones((0, 3)), np.full((4, 3), np.nan), [[1, 2, True]]]
    )
    assert [(array.dtype.name, array.shape) for array in found] == [
        ("float32", (length, 3)) for length in (2, 0, 0, 1)
    ]
    with pytest.raises(ValueError, match=r"at least one frame\. Received: 0 frames"):
        FrameNormalizer.adapt([np.ones((0, 3))])


@pytest.mark.parametrize("coarse", [False, True])
def test_batches_hold_every_window_once_and_hide_their_padding(
    windows: list[np.ndarray], normalizer: FrameNormalizer, coarse: bool
) -> None:
    dataset = translation_dataset(
        zip(windows, TEXTS, strict=True),
        normalizer,
        TOKENIZER,
        tokens_per_batch=32,
        pad_to_bucket_boundary=coarse,
    )
    found = {}
    for inputs, labels in dataset.as_numpy_iterator():
        features, mask = inputs["encoder_features"], inputs["encoder_padding_mask"]
        assert (features.dtype, mask.dtype) == ("float32", bool)
        assert features.shape == (*mask.shape, 3)
        assert mask.size <= 32
        assert not np.any(features[~mask])
        assert np.array_equal(inputs["decoder_token_ids"][:, 1:], np.where(labels == 3, 0, labels)[:, :-1])
        for row, kept, ids in zip(features, mask, labels, strict=True):
            [text] = TOKENIZER.detokenize([ids]).numpy()
            found[row[kept].tobytes()] = text.decode()
    wanted = {normalizer(window).numpy().tobytes(): text for window, text in zip(windows, TEXTS, strict=True)}
    assert found == wanted
    assert dataset.cardinality() == len([*dataset])


def test_two_datasets_with_one_seed_are_equal_and_long_windows_are_left_out(
    windows: list[np.ndarray], normalizer: FrameNormalizer, caplog: pytest.LogCaptureFixture
) -> None:
    pairs = [*zip(windows, TEXTS, strict=True)]
    first, second = (
        [
            *translation_dataset(
                pairs, normalizer, TOKENIZER, tokens_per_batch=16, max_source_length=10, seed=3
            )
        ]
        for _ in range(2)
    )
    assert "Dropped 2 of 10 pairs" in caplog.text
    tf.nest.map_structure(np.testing.assert_array_equal, first, second)
    assert sum(len(labels) for _, labels in first) == 8
    with pytest.raises(InputError, match="Every pair is too long"):
        translation_dataset(pairs[6:8], normalizer, TOKENIZER, max_source_length=10)


WRONG_PAIRS = {
    "none": ([], InputError, "Received: 0 pairs"),
    "no frames": ([(np.ones((0, 3)), "a")], InputError, "1 pairs, 1 of them without frames"),
    "texts": ([("a", "b")], (TypeError, ValueError), r"`sources\[0\]` must"),
    "no text": ([(np.ones((1, 3)), 1)], TypeError, "`targets` must hold strings"),
    "no pair": ([np.ones((1, 3))], TypeError, "Each pair must be an array and a string"),
    "another width": ([(np.ones((1, 2)), "a")], ValueError, r"the shape \(s, 3\)"),
}


@pytest.mark.parametrize("name", WRONG_PAIRS)
def test_wrong_pairs_are_refused(normalizer: FrameNormalizer, name: str) -> None:
    pairs, kind, message = WRONG_PAIRS[name]
    with pytest.raises(kind, match=message):
        translation_dataset(pairs, normalizer, TOKENIZER)


def test_a_cache_is_for_texts(normalizer: FrameNormalizer, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`cache` is for texts"):
        translation_dataset([(np.ones((1, 3)), "a")], normalizer, TOKENIZER, cache=str(tmp_path))
    assert json.loads(normalizer._vocabulary_bytes()).keys() == {"mean", "variance"}
