"""Read texts from the datasets of TensorFlow Datasets (TFDS)."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from keras_transformer.data.text_files import FilePath
from keras_transformer.errors import InputError, NoSplitError

if TYPE_CHECKING:
    from tensorflow_datasets.core import DatasetInfo

_Choose: TypeAlias = Callable[[list[str], "DatasetInfo"], Sequence[str]]


def _read_tfds(name: str, split: str, choose: _Choose, data_dir: FilePath | None) -> list[tuple[str, ...]]:
    """Return text features of each row of a split; raise NoSplitError if there is no such split.

    `choose` receives the names of all text features and returns those to read. It is called before the
    download.
    """
    # Imported here, because the import takes seconds and most runs read files.
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder(name, data_dir=None if data_dir is None else os.fspath(data_dir))
        features = builder.info.features.items()
        texts = [key for key, feature in features if isinstance(feature, tfds.features.Text)]
        chosen = choose(texts, builder.info)
        builder.download_and_prepare()
        splits = builder.info.splits
        if split.isidentifier() and split not in splits:
            raise NoSplitError(
                f"Cannot load tfds:{name}, split {split!r}: it must be one of {', '.join(splits)}."
            )
        dataset = builder.as_dataset(split=split)
    except InputError:
        raise
    except (ValueError, OSError, tfds.download.DownloadError) as error:
        # TFDS lists all its datasets in the message; the first line is the error.
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"Cannot load tfds:{name}, split {split!r}: {line}") from error
    rows = tfds.as_numpy(dataset)
    return [tuple(_decode_utf8(row[feature], name) for feature in chosen) for row in rows]


def _decode_utf8(text: bytes, name: str) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"tfds:{name} holds a text that is not valid UTF-8. Received: {text!r}.") from error
