"""Pairs by one string: the built-in task, a TFDS dataset or a file."""

import os
from typing import Any

from keras_transformer.data.pairs import Pair, drop_empty_pairs
from keras_transformer.data.text_files import read_tsv
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


NUM_DATES = {"train": 50_000, "validation": 2_000, "test": 2_000}


def read_pairs(
    spec: str,
    split: str = "train",
    *,
    num_pairs: int | None = None,
    seed: int = 0,
    data_dir: str | os.PathLike[str] | None = None,
) -> list[Pair]:
    """Reads the pairs that a specification names.

    | specification | pairs |
    |---|---|
    | `dates` | dates as people write them to ISO 8601, generated |
    | `tfds:NAME` | a dataset of TFDS, such as `tfds:ted_hrlr_translate/pt_to_en` |
    | `tfds:NAME#SOURCE,TARGET` | the same with a direction, such as `tfds:...#en,pt` |
    | `PATH.tsv`, `PATH.tsv.gz` | the first two columns of a file |

    Args:
        spec: one of the table.
        split: `"train"`, `"validation"`, `"test"`, or what the TFDS dataset has. A file is one split:
            for it this is not used.
        num_pairs: at most so many pairs, the first ones; for `dates` how many to
            generate (50,000 for training, 2,000 otherwise).
        seed: seed of what is generated.
        data_dir: where prepared TFDS datasets lie.

    Returns:
        the pairs.

    Raises:
        InputError: the specification is none of the table, or its source cannot be read.
        ValueError: `num_pairs` is not positive.
    """
    if num_pairs is not None and num_pairs < 1:
        raise ValueError(f"`num_pairs` must be at least 1. Received: num_pairs={num_pairs}.")
    if spec == "dates":
        return _read_dates(split, num_pairs, seed)
    if spec.startswith("tfds:"):
        name, languages = _parse_tfds(spec)
        return read_tfds(name, split, languages=languages, data_dir=data_dir)[:num_pairs]
    if spec.endswith((".tsv", ".tsv.gz")):
        return read_tsv(spec)[:num_pairs]
    raise InputError(f"Pairs must be `dates`, `tfds:NAME`, `PATH.tsv` or `PATH.tsv.gz`. Received: {spec!r}.")


def has_split(spec: str, split: str) -> bool:
    """Says whether what a specification names has a split of its own.

    Args:
        spec: as for `read_pairs`, which has read another split: only then it is known what TFDS has.
        split: such as "validation".

    Returns:
        True for `dates` and what a TFDS dataset has; False for files.

    Raises:
        InputError: TFDS does not know the dataset.
    """
    if spec.startswith("tfds:"):
        return split in tfds_splits(_parse_tfds(spec)[0])
    return spec == "dates" and split in NUM_DATES


def _read_dates(split: str, num_pairs: int | None, seed: int) -> list[Pair]:
    """Generates the built-in task."""
    # Imported late: it needs `babel`, an optional dependency.
    from keras_transformer.data.dates import generate_dates

    if split not in NUM_DATES:
        raise InputError(f"The split of `dates` must be one of {', '.join(NUM_DATES)}. Received: {split!r}.")
    return generate_dates(num_pairs or NUM_DATES[split], seed=seed, split=split)


def _parse_tfds(spec: str) -> tuple[str, tuple[str, str] | None]:
    """Takes `tfds:NAME#SOURCE,TARGET` apart."""
    name, separator, direction = spec.removeprefix("tfds:").partition("#")
    languages = tuple(direction.split(","))
    if not name or (separator and len(languages) != 2):
        raise InputError(f"A TFDS dataset is `tfds:NAME` or `tfds:NAME#SOURCE,TARGET`. Received: {spec!r}.")
    return name, (languages[0], languages[-1]) if separator else None
