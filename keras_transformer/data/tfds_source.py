"""Pairs from TensorFlow Datasets, by name."""

import os
from typing import Any

from keras_transformer.data.pairs import Pair, drop_empty_pairs
from keras_transformer.errors import InputError


def read_tfds(
    name: str,
    split: str = "train",
    *,
    languages: tuple[str, str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> list[Pair]:
    """Reads a translation dataset through `tfds.load`, which downloads it the first time.

    Args:
        name: name and configuration, such as `"ted_hrlr_translate/pt_to_en"`.
        split: a split of the dataset, such as `"train"` or `"train[:10%]"`.
        languages: features that hold source and target. Without it the supervised keys of
            the dataset; give it to turn the direction around.
        data_dir: where prepared datasets lie; the default of TFDS otherwise.

    Returns:
        the pairs in the order of the dataset, without those that are empty on one side.

    Raises:
        InputError: TFDS does not know the name, configuration or split, cannot download,
            or the dataset holds no such pair of texts.
    """
    # Imported late: it takes seconds, and most runs read files.
    import tensorflow_datasets as tfds

    directory = None if data_dir is None else os.fspath(data_dir)
    try:
        source, target = _text_features(tfds.builder(name, data_dir=directory).info, name, languages)
        dataset = tfds.load(name, split=split, data_dir=directory)
    except InputError:
        raise
    except (ValueError, OSError, tfds.download.DownloadError) as error:
        # TFDS writes pages, with the names of all its datasets; the first line is the fault.
        raise InputError(f"Cannot load tfds:{name}, split {split!r}: {_first_line(error)}") from error
    pairs = [(_decode(row[source], name), _decode(row[target], name)) for row in tfds.as_numpy(dataset)]
    return drop_empty_pairs(pairs, f"tfds:{name}")


def tfds_splits(name: str, *, data_dir: str | os.PathLike[str] | None = None) -> list[str]:
    """Says which splits a dataset has that was read before.

    Args:
        name: name and configuration, as for `read_tfds`.
        data_dir: as for `read_tfds`.

    Returns:
        names, such as "train" and "test".

    Raises:
        InputError: TFDS does not know the name or configuration.
    """
    import tensorflow_datasets as tfds

    try:
        directory = None if data_dir is None else os.fspath(data_dir)
        return list(tfds.builder(name, data_dir=directory).info.splits)
    except (ValueError, OSError, tfds.download.DownloadError) as error:
        raise InputError(f"Cannot load tfds:{name}: {_first_line(error)}") from error


def _text_features(info: Any, name: str, languages: tuple[str, str] | None) -> tuple[str, str]:
    """Finds the names of the source and target features, before anything is downloaded."""
    import tensorflow_datasets as tfds

    texts = [key for key, feature in info.features.items() if isinstance(feature, tfds.features.Text)]
    # A folder or an ad-hoc dataset has no supervised keys; two texts can only be one pair.
    keys = languages or info.supervised_keys or tuple(texts)
    if len(keys) != 2 or not all(key in texts for key in keys):
        raise InputError(
            f"tfds:{name} must hold a source and a target text. "
            f"Received: wanted={list(keys)}, its texts={texts}."
        )
    return keys[0], keys[1]


def _first_line(error: Exception) -> str:
    """Shortens a message to one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _decode(text: bytes, name: str) -> str:
    """Decodes a text of the dataset."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"tfds:{name} holds a text that is not valid UTF-8. Received: {text!r}.") from error
