import gzip
from pathlib import Path

import pytest

from keras_transformer.data.text_files import read_tsv
from keras_transformer.errors import InputError


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "x.tsv"
    path.write_text('one\tein "s\tun\n\ntwo\tzwei\tdeux\n', encoding="utf-8")
    return path


def test_reads_the_first_two_columns(table: Path) -> None:
    assert read_tsv(table) == [("one", 'ein "s'), ("two", "zwei")]


def test_reads_chosen_columns(table: Path) -> None:
    assert read_tsv(table, source_column=2, target_column=0) == [("un", "one"), ("deux", "two")]


def test_reads_further_targets(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("a\tA\tAA\tAAA\nb\tB\n\nc\tC\t\n", encoding="utf-8")
    pairs = [("a", "A"), ("a", "AA"), ("a", "AAA"), ("b", "B"), ("c", "C")]
    assert read_tsv(path, further_targets=True) == pairs


def test_reads_gz(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv.gz"
    path.write_bytes(gzip.compress(b"AB\tEY B IY\r\n"))
    assert read_tsv(str(path)) == [("AB", "EY B IY")]


def test_drops_pairs_with_an_empty_column(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("a\t\nb\tc\n", encoding="utf-8")
    assert read_tsv(path) == [("b", "c")]


def test_too_few_columns_with_the_line(table: Path) -> None:
    table.write_text("a\tb\n\nno tab\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"x\.tsv:3: needs 2 columns separated by tabs. Received: 1\."):
        read_tsv(table)


def test_too_few_columns_for_the_chosen_one(table: Path) -> None:
    with pytest.raises(InputError, match=r"x\.tsv:1: needs 4 columns separated by tabs. Received: 3\."):
        read_tsv(table, target_column=3)


def test_negative_column(table: Path) -> None:
    with pytest.raises(ValueError, match="Received: source_column=0, target_column=-1"):
        read_tsv(table, target_column=-1)


def test_missing_and_empty_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.tsv: No such file"):
        read_tsv(tmp_path / "none.tsv")
    (tmp_path / "x.tsv").touch()
    with pytest.raises(InputError, match=r"x\.tsv: the file is empty"):
        read_tsv(tmp_path / "x.tsv")
