"""Pairs from wherever they are: files, a TFDS dataset, the built-in task."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer._arguments import check_positive
from keras_transformer._files import as_path
from keras_transformer.data.formats import _is_of_pairs
from keras_transformer.data.pairs import _drop_empty_pairs
from keras_transformer.data.parallel_text import ENDINGS, _find_shards, split_columns
from keras_transformer.data.text_files import FilePath, Files, _bounded
from keras_transformer.errors import InputError
from keras_transformer.types import Pair

if TYPE_CHECKING:
    from tensorflow_datasets.core import DatasetInfo

_NUM_DATES = {"train": 50_000, "validation": 2_000, "test": 2_000}


def read_pairs(
    origin: FilePath | tuple[Files, Files],
    split: str = "train",
    *,
    optional: bool = False,
    num_pairs: int | None = None,
    further_targets: bool = False,
    seed: int = 0,
    data_dir: FilePath | None = None,
) -> list[Pair]:
    """Read sentence pairs.

    | origin | pairs |
    |---|---|
    | `(SOURCE, TARGET)` | two parallel text files, line by line, or as many shards of both |
    | `PATH.tsv`, `PATH.txt` | the first two columns of a table with tabs, quoted by a spreadsheet or not |
    | `PATH.csv` | a table with commas, semicolons or tabs whose first row names the columns |
    | `PATH.jsonl`, `PATH.json` | objects of two texts, also `{"translation": {"de": ..., "en": ...}}` |
    | `PATH.tmx` | the units of a translation memory |
    | `PATH#SOURCE,TARGET` | the columns, fields or languages of these names, or numbers of columns from 1 |
    | `DIRECTORY` | all `.tsv` files in it; if there are none, all `.csv`, `.jsonl` or `.tmx` files |
    | `tfds:NAME` | a dataset of TFDS, such as `tfds:ted_hrlr_translate/pt_to_en` |
    | `tfds:NAME#SOURCE,TARGET` | the same with a direction, such as `tfds:...#en,pt` |
    | `FOLDER` | files `LANGUAGE.SPLIT.txt`, as TFDS's `TranslateFolder` reads them; `#SOURCE,TARGET` too |
    | `dates` | dates as people write them to ISO 8601, generated |

    Files may end in `.gz`, and be patterns such as `train-*.tsv.gz`. A first row of known names, such as `en`
    and `de`, or `source` and `target`, is not a pair. The lines of parallel SGML files are their `<seg>`
    elements. TFDS downloads a dataset the first time.

    Args:
        origin: one of the table.
        split: `"train"`, `"validation"`, `"test"`, or what the TFDS dataset has. A file is one split:
            for it this is not used.
        optional: whether to return no pairs where the origin has no split of this name, as a file
            never has, instead of raising.
        num_pairs: at most so many pairs, the first ones; for `dates` how many to
            generate (50,000 for training, 2,000 otherwise).
        further_targets: whether columns after the second are more targets, such as the other
            pronunciations of a word, each of which makes a pair with the source.
        seed: seed of what is generated.
        data_dir: where prepared TFDS datasets lie; the default of TFDS otherwise.

    Returns:
        The pairs in their order, without those that are empty on one side.

    Raises:
        InputError: the origin is none of the table, it cannot be read, or it has no pair of texts.
        ValueError: `num_pairs` is not positive.
    """
    if num_pairs is not None:
        check_positive(num_pairs=num_pairs)
    if isinstance(origin, tuple):
        return [] if optional else _read_files(*origin)[:num_pairs]
    spec = os.fspath(origin)
    if spec == "dates":
        return _read_dates(split, num_pairs, seed, optional=optional)
    if spec.startswith("tfds:"):
        return _read_tfds(spec, split, data_dir, optional=optional)[:num_pairs]
    if spec and (found := sorted(as_path(spec.partition("#")[0]).glob("*.*.txt"))):
        files = _folder_files(spec, found, split)
        is_absent = optional and not any(path.exists() for path in files)
        return [] if is_absent else read_pairs(files, num_pairs=num_pairs)
    if spec and ((path := split_columns(spec)[0]).is_dir() or _is_of_pairs(path.name)):
        return [] if optional else _read_files(origin, further_targets=further_targets)[:num_pairs]
    wanted = f"`dates`, `tfds:NAME`, a file ending in {ENDINGS}, or a directory"
    raise InputError(f"Pairs must be {wanted}. Received: {spec!r}.")


def _read_files(source: Files, target: Files | None = None, *, further_targets: bool = False) -> list[Pair]:
    shards = _find_shards(source, target)
    name = " and ".join(map(str, shards[0].files)) + (
        f" to {shards[-1].files[-1]}" if len(shards) > 1 else ""
    )
    pairs = (pair for shard in shards for pair in shard.pairs(further_targets=further_targets))
    return _drop_empty_pairs(_bounded(pairs, name), name)


def _read_dates(split: str, num_pairs: int | None, seed: int, *, optional: bool) -> list[Pair]:
    # Imported late: it needs `babel`, an optional dependency.
    from keras_transformer.data.dates import _generate_dates

    if split in _NUM_DATES:
        return _generate_dates(num_pairs or _NUM_DATES[split], seed=seed, split=split)
    if optional:
        return []
    raise InputError(f"The split of `dates` must be one of {', '.join(_NUM_DATES)}. Received: {split!r}.")


def _folder_files(spec: str, found: list[Path], split: str) -> tuple[Path, Path]:
    """Name the files of a split in a folder of `LANGUAGE.SPLIT.txt`."""
    # Read as other parallel files are, since TFDS splits lines at more characters than the ends of lines,
    # and refuses a folder that holds anything else.
    folder, separator, direction = spec.partition("#")
    languages = direction.split(",") if separator else sorted({path.name.split(".")[0] for path in found})
    if len(languages) != 2:
        raise InputError(
            f"{folder} must hold files LANGUAGE.SPLIT.txt of two languages, or the two be named as "
            f"{folder}#SOURCE,TARGET. Received: {', '.join(path.name for path in found[:6])}."
        )
    source, target = (as_path(folder) / f"{language}.{split}.txt" for language in languages)
    return source, target


def _read_tfds(spec: str, split: str, data_dir: FilePath | None, *, optional: bool) -> list[Pair]:
    # Imported late: it takes seconds, and most runs read files.
    import tensorflow_datasets as tfds

    name, separator, direction = spec.removeprefix("tfds:").partition("#")
    languages = tuple(direction.split(",")) if separator else ()
    if not name or len(languages) not in (0, 2):
        raise InputError(f"A TFDS dataset is `tfds:NAME` or `tfds:NAME#SOURCE,TARGET`. Received: {spec!r}.")
    try:
        builder = tfds.builder(name, data_dir=None if data_dir is None else os.fspath(data_dir))
        source, target = _text_features(builder.info, name, languages)
        builder.download_and_prepare()
        if optional and split not in builder.info.splits:
            return []
        dataset = builder.as_dataset(split=split)
    except InputError:
        raise
    except (ValueError, OSError, tfds.download.DownloadError) as error:
        # TFDS writes pages, with the names of all its datasets; the first line is the fault.
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"Cannot load tfds:{name}, split {split!r}: {line}") from error
    pairs = [(_decode(row[source], name), _decode(row[target], name)) for row in tfds.as_numpy(dataset)]
    return _drop_empty_pairs(pairs, f"tfds:{name}")


def _text_features(info: "DatasetInfo", name: str, languages: tuple[str, ...]) -> tuple[str, str]:
    """Find the names of the source and target features, before anything is downloaded."""
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


def _decode(text: bytes, name: str) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"tfds:{name} holds a text that is not valid UTF-8. Received: {text!r}.") from error
