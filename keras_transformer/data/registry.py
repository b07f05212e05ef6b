"""Pairs by one string: the built-in task, a TFDS dataset or a file."""

import os

from keras_transformer.data.pairs import Pair
from keras_transformer.data.tfds_source import read_tfds, tfds_splits
from keras_transformer.data.tsv import read_tsv
from keras_transformer.errors import InputError

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
