"""Reads datasets that the tests prepare; nothing is downloaded."""

from pathlib import Path

import numpy as np
import pytest

from keras_transformer.data.registry import read_tfds, tfds_splits
from keras_transformer.errors import InputError

tfds = pytest.importorskip("tensorflow_datasets")

SENTENCES = {"de": ["ein Hund", "Käse", "leer"], "en": ["a dog", "cheese", ""]}


def _numbered(examples: object) -> object:
    """Gives each example of a list the key that TFDS asks for; a dataset needs none."""
    return list(enumerate(examples)) if isinstance(examples, list) else examples


def store(name: str, features: object, rows: dict[str, object], data_dir: Path) -> None:
    tfds.dataset_builders.store_as_tfds_dataset(
        name=name,
        version="1.0.0",
        features=features,
        split_datasets={split: _numbered(examples) for split, examples in rows.items()},
        data_dir=data_dir,
        disable_shuffling=True,
    )


class GermanToEnglish(tfds.core.GeneratorBasedBuilder):
    """A dataset of code, which names its direction as those of TFDS do."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> object:
        features = tfds.features.Translation(("de", "en"))
        return tfds.core.DatasetInfo(builder=self, features=features, supervised_keys=("en", "de"))

    def _split_generators(self, dl_manager: object) -> dict[str, object]:
        return {"train": self._generate_examples(), "test": self._generate_examples()}

    def _generate_examples(self) -> object:
        yield 0, {"de": "ein Hund", "en": "a dog"}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tfds")
    folder = root / "folder"
    folder.mkdir()
    for language, lines in SENTENCES.items():
        (folder / f"{language}.train.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = dict(tfds.folder_dataset.TranslateFolder(str(folder)).as_dataset())
    store("my_corpus", tfds.features.Translation(("de", "en")), rows, root)
    return root


def test_reads_a_folder_that_was_stored(data_dir: Path) -> None:
    assert read_tfds("my_corpus", data_dir=data_dir) == [("ein Hund", "a dog"), ("Käse", "cheese")]


def test_turns_the_direction_around(data_dir: Path) -> None:
    pairs = read_tfds("my_corpus", "train[:1]", languages=("en", "de"), data_dir=data_dir)
    assert pairs == [("a dog", "ein Hund")]


def test_follows_the_supervised_keys(data_dir: Path) -> None:
    assert read_tfds("german_to_english", "test", data_dir=data_dir) == [("a dog", "ein Hund")]


def assert_fault(message: str, name: str, split: str, data_dir: Path) -> None:
    with pytest.raises(InputError, match=message) as raised:
        read_tfds(name, split, data_dir=data_dir)
    assert "\n" not in str(raised.value)


def test_unknown_dataset(data_dir: Path) -> None:
    message = "Cannot load tfds:no_such_corpus, split 'train': Dataset no_such_corpus not found"
    assert_fault(message, "no_such_corpus", "train", data_dir)


def test_unknown_configuration(data_dir: Path) -> None:
    message = "tfds:ted_hrlr_translate/xx_to_yy.*BuilderConfig xx_to_yy not found"
    assert_fault(message, "ted_hrlr_translate/xx_to_yy", "train", data_dir)


def test_unknown_split(data_dir: Path) -> None:
    assert_fault("split 'dev': Unknown split 'dev'", "my_corpus", "dev", data_dir)


def test_the_splits_that_a_dataset_has(data_dir: Path) -> None:
    assert tfds_splits("my_corpus", data_dir=data_dir) == ["train"]
    with pytest.raises(InputError, match="Cannot load tfds:no_such_corpus: Dataset no_such_corpus not found"):
        tfds_splits("no_such_corpus", data_dir=data_dir)


def test_malformed_name(data_dir: Path) -> None:
    assert_fault("Cannot load tfds:bad name!", "bad name!", "train", data_dir)


def test_dataset_without_two_texts(data_dir: Path) -> None:
    message = r"must hold a source and a target text. Received: wanted=\['image', 'label'\], its texts=\[\]"
    assert_fault(message, "mnist", "train", data_dir)


def test_unknown_language(data_dir: Path) -> None:
    with pytest.raises(InputError, match=r"wanted=\['en', 'fr'\], its texts=\['de', 'en'\]"):
        read_tfds("my_corpus", languages=("en", "fr"), data_dir=data_dir)


def test_no_network(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*args: object, **options: object) -> None:
        raise ConnectionError("Max retries exceeded\nwith url")

    monkeypatch.setattr(tfds, "load", load)
    assert_fault("split 'train': Max retries exceeded$", "my_corpus", "train", data_dir)


def test_text_that_is_not_utf8(data_dir: Path) -> None:
    rows = {"train": [{"a": b"\xff", "b": "x"}]}
    store("broken_corpus", tfds.features.Translation(("a", "b")), rows, data_dir)
    assert_fault(r"not valid UTF-8. Received: b'\\xff'", "broken_corpus", "train", data_dir)


def test_shards_are_read_in_order(data_dir: Path) -> None:
    rows = {"train": [{"a": str(i), "b": str(-i)} for i in range(1, 50)]}
    store("numbers", tfds.features.Translation(("a", "b")), rows, data_dir)
    numbers = np.array(read_tfds("numbers", data_dir=data_dir), int)
    assert numbers[:, 0].tolist() == list(range(1, 50))
    assert (numbers.sum(axis=1) == 0).all()
