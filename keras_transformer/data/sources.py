"""Read sentence pairs from files, TFDS datasets and the built-in task."""

import os
from typing import TYPE_CHECKING

from keras_transformer._arguments import check_positive
from keras_transformer.data.formats import _is_of_pairs
from keras_transformer.data.pairs import _drop_empty_pairs
from keras_transformer.data.parallel_text import ENDINGS, _find_shards, split_columns
from keras_transformer.data.text_files import FilePath, Files, _bounded
from keras_transformer.data.tfds import _read_tfds
from keras_transformer.errors import InputError, NoSplitError
from keras_transformer.types import Pair

if TYPE_CHECKING:
    from tensorflow_datasets.core import DatasetInfo

_NUM_DATES = {"train": 50_000, "validation": 2_000, "test": 2_000}


def read_pairs(
    origin: Files | tuple[Files, Files],
    split: str = "train",
    *,
    num_pairs: int | None = None,
    further_targets: bool = False,
    seed: int = 0,
    data_dir: FilePath | None = None,
) -> list[Pair]:
    """Read sentence pairs for translation.

    | origin | pairs |
    |---|---|
    | `(SOURCE, TARGET)` | two text files, line by line, or two equally long lists of files (or patterns) |
    | `PATH.tsv`, `PATH.txt` | the first two columns of a table with tabs; cells may be quoted |
    | `PATH.csv` | a table with commas, semicolons or tabs and a header row |
    | `PATH.jsonl`, `PATH.json` | objects of two texts, also `{"translation": {"de": ..., "en": ...}}` |
    | `PATH.tmx` | the units of a translation memory; its header names the source language (`srclang`) |
    | `PATH#SOURCE,TARGET` | the columns, fields or languages of these names, or column numbers from 1 |
    | `DIRECTORY` | all `.tsv` files in it, else all `.csv`, else all `.jsonl`, else all `.tmx` files |
    | `DIRECTORY#SOURCE,TARGET` | the same with these columns, fields or languages |
    | `tfds:NAME` | a TFDS dataset, such as `tfds:ted_hrlr_translate/pt_to_en` |
    | `tfds:NAME#SOURCE,TARGET` | the same in a given direction, such as `tfds:...#en,pt` |
    | `dates` | generated dates in many languages, with their ISO 8601 form |

    Files may be compressed (`.gz`) and given as patterns such as `train-*.tsv.gz`. A header row with known
    names, such as `en` and `de`, or `source` and `target`, is skipped. In SGML files, each `<seg>` element is
    a line. TFDS downloads a dataset on first use.

    Args:
        origin: A path, a list of paths, a pair of paths or a name, as in the table above.
        split: `"train"`, `"validation"`, `"test"`, or a split of the TFDS dataset. Ignored for files.
        num_pairs: Maximum number of pairs; the first ones are returned. For `dates`, the number to generate.
            Defaults to all; for `dates` to 50,000 for training and 2,000 otherwise.
        further_targets: Whether columns after the second are further targets, such as alternative
            pronunciations of a word. Each makes a pair with the source.
        seed: Random seed of `dates`.
        data_dir: Directory of prepared TFDS datasets. Defaults to that of TFDS.

    Returns:
        The pairs in order, without pairs that have an empty side.

    Raises:
        InputError: If the origin is not one of the table, cannot be read, or has no pairs with text;
            `NoSplitError` if a dataset has no such split.
        ValueError: If `num_pairs` is not positive.
    """
    if num_pairs is not None:
        check_positive(num_pairs=num_pairs)
    if isinstance(origin, tuple):
        return _read_files(*origin)[:num_pairs]
    if not isinstance(origin, str | os.PathLike):
        return _read_files(origin, further_targets=further_targets)[:num_pairs]
    spec = os.fspath(origin)
    if spec == "dates":
        return _read_dates(split, num_pairs, seed)
    if spec.startswith("tfds:"):
        return _read_tfds_pairs(spec, split, data_dir)[:num_pairs]
    if spec and ((path := split_columns(spec)[0]).is_dir() or _is_of_pairs(path.name)):
        return _read_files(origin, further_targets=further_targets)[:num_pairs]
    wanted = f"`dates`, `tfds:NAME`, a file ending in {ENDINGS}, or a directory"
    raise InputError(f"Pairs must be {wanted}. Received: {spec!r}.")


def _read_files(source: Files, target: Files | None = None, *, further_targets: bool = False) -> list[Pair]:
    shards = _find_shards(source, target)
    name = " and ".join(map(str, shards[0].files)) + (
        f" to {shards[-1].files[-1]}" if len(shards) > 1 else ""
    )
    pairs = (pair for shard in shards for pair in shard.pairs(further_targets=further_targets))
    return _drop_empty_pairs(_bounded(pairs, name), name)


def _read_dates(split: str, num_pairs: int | None, seed: int) -> list[Pair]:
    # Imported here, because it needs `babel`, an optional dependency.
    from keras_transformer.data.dates import _generate_dates

    if split in _NUM_DATES:
        return _generate_dates(num_pairs or _NUM_DATES[split], seed=seed, split=split)
    raise NoSplitError(f"The split of `dates` must be one of {', '.join(_NUM_DATES)}. Received: {split!r}.")


def _read_tfds_pairs(spec: str, split: str, data_dir: FilePath | None) -> list[Pair]:
    name, separator, direction = spec.removeprefix("tfds:").partition("#")
    languages = tuple(direction.split(",")) if separator else ()
    if not name or len(languages) not in (0, 2):
        raise InputError(f"A TFDS dataset is `tfds:NAME` or `tfds:NAME#SOURCE,TARGET`. Received: {spec!r}.")

    def choose(texts: list[str], info: "DatasetInfo") -> tuple[str, ...]:
        # A folder or ad-hoc dataset has no supervised keys, but exactly two texts are a pair.
        keys = languages or info.supervised_keys or tuple(texts)
        if len(keys) != 2 or not all(key in texts for key in keys):
            raise InputError(
                f"tfds:{name} must hold a source and a target text. "
                f"Received: wanted={list(keys)}, its texts={texts}."
            )
        return keys

    rows = _read_tfds(name, split, choose, data_dir)
    return _drop_empty_pairs([(source, target) for source, target in rows], f"tfds:{name}")
