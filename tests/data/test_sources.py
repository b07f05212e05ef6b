"""Pairs from tables, parallel files, the built-in task and datasets that the tests prepare.

Nothing is downloaded.
"""

import gzip
import logging
from pathlib import Path

import numpy as np
import pytest

from keras_transformer.data import ParallelText, read_pairs
from keras_transformer.errors import InputError, NoSplitError

tfds = pytest.importorskip("tensorflow_datasets")


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "x.tsv"
    path.write_text("one\teins\ntwo\tzwei\n", encoding="utf-8")
    return str(path)


def test_reads_tsv(table: str) -> None:
    assert read_pairs(table) == [("one", "eins"), ("two", "zwei")]
    assert read_pairs(table, "test", num_pairs=1) == [("one", "eins")]


def test_reads_dates() -> None:
    pytest.importorskip("babel", reason="needs the demo extra")
    train = read_pairs("dates", num_pairs=5, seed=1)
    assert len(train) == 5
    assert train == read_pairs("dates", num_pairs=5, seed=1)
    assert train != read_pairs("dates", num_pairs=5, seed=2)


def test_dates_with_an_unknown_split() -> None:
    with pytest.raises(InputError, match=r"one of train, validation, test\. Received: 'dev'"):
        read_pairs("dates", "dev")


@pytest.mark.parametrize("spec", ["tfds:", "tfds:#en,de", "tfds:x#", "tfds:x#en", "tfds:x#en,de,fr"])
def test_malformed_tfds(spec: str) -> None:
    with pytest.raises(InputError, match=f"`tfds:NAME#SOURCE,TARGET`. Received: '{spec}'"):
        read_pairs(spec)


@pytest.mark.parametrize("spec", ["", "date", "x.xlsx", "TFDS:x"])
def test_unknown_specification(spec: str) -> None:
    with pytest.raises(InputError, match=f"Pairs must be `dates`, .* or a directory. Received: '{spec}'"):
        read_pairs(spec)


def test_num_pairs_out_of_range(table: str) -> None:
    with pytest.raises(ValueError, match=r"above zero\. Received: num_pairs=0"):
        read_pairs(table, num_pairs=0)


def test_a_list_of_files(table: str) -> None:
    assert read_pairs([table, table]) == [*read_pairs(table), *read_pairs(table)]
    with pytest.raises(InputError, match=r"A file of pairs must end in .* Received: 'a\.en'"):
        read_pairs(["a.en", "a.de"])


def test_how_many_dates_there_are() -> None:
    pytest.importorskip("babel", reason="needs the demo extra")
    assert len(read_pairs("dates", "validation", seed=3)) == 2000
    assert len(read_pairs("dates", "test", num_pairs=7)) == 7
    with pytest.raises(NoSplitError, match="must be one of train, validation, test"):
        read_pairs("dates", "dev")


def test_drops_and_counts_pairs_without_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("a\tA\n\tB\nc\t \u3000\n", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert read_pairs(path) == [("a", "A")]
    message = f"Dropped 2 of 3 pairs (66.7 %) of {path}: empty."
    hint = " That is more than 5 %: do the two sides belong together?"
    assert caplog.messages == [message + hint]


def test_a_few_pairs_without_text_are_no_question(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    names = tmp_path / "a", tmp_path / "A"
    for name in names:
        name.write_text(f"{name.name}\n" * 99 + "\n", encoding="utf-8")
    read_pairs(names)
    assert caplog.messages == [f"Dropped 1 of 100 pairs (1.0 %) of {names[0]} and {names[1]}: empty."]


def test_missing_and_empty_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.tsv: No such file"):
        read_pairs(tmp_path / "none.tsv")
    (tmp_path / "x.tsv").touch()
    with pytest.raises(InputError, match=r"x\.tsv: the file is empty"):
        read_pairs(tmp_path / "x.tsv")


def test_too_few_columns_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a\tb\n\nno tab\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"x\.tsv:3: needs 2 columns separated by tabs. Received: 1\."):
        read_pairs(tmp_path / "x.tsv")


@pytest.fixture
def wide_table(tmp_path: Path) -> Path:
    path = tmp_path / "x.tsv"
    path.write_text('one\tein "s\tun\n\ntwo\tzwei\tdeux\n', encoding="utf-8")
    return path


def test_reads_the_first_two_columns(wide_table: Path) -> None:
    assert read_pairs(wide_table) == [("one", 'ein "s'), ("two", "zwei")]


def test_reads_further_targets(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("a\tA\tAA\tAAA\nb\tB\n\nc\tC\t\n", encoding="utf-8")
    pairs = [("a", "A"), ("a", "AA"), ("a", "AAA"), ("b", "B"), ("c", "C")]
    assert read_pairs(path, further_targets=True) == pairs


def test_reads_gz(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv.gz"
    path.write_bytes(gzip.compress(b"AB\tEY B IY\r\n"))
    assert read_pairs(str(path)) == [("AB", "EY B IY")]


def test_drops_pairs_with_an_empty_column(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("a\t\nb\tc\n", encoding="utf-8")
    assert read_pairs(path) == [("b", "c")]


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
    assert read_pairs("tfds:my_corpus", data_dir=data_dir) == [("ein Hund", "a dog"), ("Käse", "cheese")]


def test_turns_the_direction_around(data_dir: Path) -> None:
    pairs = read_pairs("tfds:my_corpus#en,de", "train[:1]", data_dir=data_dir)
    assert pairs == [("a dog", "ein Hund")]


def test_follows_the_supervised_keys(data_dir: Path) -> None:
    assert read_pairs("tfds:german_to_english", "test", data_dir=data_dir) == [("a dog", "ein Hund")]


def assert_fault(message: str, name: str, split: str, data_dir: Path) -> None:
    with pytest.raises(InputError, match=message) as raised:
        read_pairs(f"tfds:{name}", split, data_dir=data_dir)
    assert "\n" not in str(raised.value)


def test_unknown_dataset(data_dir: Path) -> None:
    message = "Cannot load tfds:no_such_corpus, split 'train': Dataset no_such_corpus not found"
    assert_fault(message, "no_such_corpus", "train", data_dir)


def test_unknown_configuration(data_dir: Path) -> None:
    message = "tfds:ted_hrlr_translate/xx_to_yy.*BuilderConfig xx_to_yy not found"
    assert_fault(message, "ted_hrlr_translate/xx_to_yy", "train", data_dir)


def test_unknown_split(data_dir: Path) -> None:
    assert_fault("split 'dev': it must be one of train", "my_corpus", "dev", data_dir)
    assert_fault("split 'dev\\[:1\\]': Unknown split 'dev'", "my_corpus", "dev[:1]", data_dir)
    with pytest.raises(NoSplitError):
        read_pairs("tfds:my_corpus", "validation", data_dir=data_dir)


def test_at_most_so_many_pairs(data_dir: Path) -> None:
    assert read_pairs("tfds:my_corpus", num_pairs=1, data_dir=data_dir) == [("ein Hund", "a dog")]


def test_malformed_name(data_dir: Path) -> None:
    assert_fault("Cannot load tfds:bad name!", "bad name!", "train", data_dir)


def test_dataset_without_two_texts(data_dir: Path) -> None:
    message = r"must hold a source and a target text. Received: wanted=\['image', 'label'\], its texts=\[\]"
    assert_fault(message, "mnist", "train", data_dir)


def test_unknown_language(data_dir: Path) -> None:
    with pytest.raises(InputError, match=r"wanted=\['en', 'fr'\], its texts=\['de', 'en'\]"):
        read_pairs("tfds:my_corpus#en,fr", data_dir=data_dir)


def test_no_network(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*args: object, **options: object) -> None:
        raise ConnectionError("Max retries exceeded\nwith url")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", load)
    assert_fault("split 'train': Max retries exceeded$", "my_corpus", "train", data_dir)


def test_text_that_is_not_utf8(data_dir: Path) -> None:
    rows = {"train": [{"a": b"\xff", "b": "x"}]}
    store("broken_corpus", tfds.features.Translation(("a", "b")), rows, data_dir)
    assert_fault(r"not valid UTF-8. Received: b'\\xff'", "broken_corpus", "train", data_dir)


def test_shards_are_read_in_order(data_dir: Path) -> None:
    rows = {"train": [{"a": str(i), "b": str(-i)} for i in range(1, 50)]}
    store("numbers", tfds.features.Translation(("a", "b")), rows, data_dir)
    numbers = np.array(read_pairs("tfds:numbers", data_dir=data_dir), int)
    assert numbers[:, 0].tolist() == list(range(1, 50))
    assert (numbers.sum(axis=1) == 0).all()


def test_a_directory_and_patterns_are_read_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b", "a"):
        with gzip.open(tmp_path / f"{name}.tsv.gz", "wt") as file:
            file.write(f"{name}\t{name}1\t{name}2\n")
    assert read_pairs(tmp_path) == read_pairs(tmp_path / "*.tsv.gz") == [("a", "a1"), ("b", "b1")]
    assert len(read_pairs(tmp_path, further_targets=True)) == 4
    (tmp_path / "[x].tsv").write_text("x\ty\n")
    assert read_pairs(tmp_path / "[x].tsv") == [("x", "y")]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"files that end in \.tsv, .*\. Received: '.*empty'"):
        read_pairs(tmp_path / "empty")
    with pytest.raises(InputError, match=r"A file of pairs must end in \.tsv, .*\. Received: 'x'"):
        ParallelText("x")
