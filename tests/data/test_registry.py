import sys
from pathlib import Path

import pytest

from keras_transformer.data import registry
from keras_transformer.data.dates.generation import patterns_by_locale
from keras_transformer.data.registry import has_split, read_pairs
from keras_transformer.errors import InputError


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


def test_number_of_dates(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def generate(num_pairs: int, **options: object) -> list[tuple[str, str]]:
        calls.append((num_pairs, options))
        return []

    monkeypatch.setattr("keras_transformer.data.dates.generate_dates", generate)
    read_pairs("dates", "test", seed=3)
    read_pairs("dates", "validation", num_pairs=7)
    assert calls == [(2000, {"seed": 3, "split": "test"}), (7, {"seed": 0, "split": "validation"})]


def test_dates_without_babel(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns_by_locale.cache_clear()  # another test may have read the patterns
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(InputError, match=r'pip install "\.\[demo\]"'):
        read_pairs("dates", num_pairs=3)


def test_dates_with_an_unknown_split() -> None:
    with pytest.raises(InputError, match=r"one of train, validation, test\. Received: 'dev'"):
        read_pairs("dates", "dev")


@pytest.mark.parametrize(
    ("spec", "name", "languages"),
    [
        ("tfds:ted_hrlr_translate/pt_to_en", "ted_hrlr_translate/pt_to_en", None),
        ("tfds:opus/medical:0.1.0#en,de", "opus/medical:0.1.0", ("en", "de")),
    ],
)
def test_tfds(
    monkeypatch: pytest.MonkeyPatch, spec: str, name: str, languages: tuple[str, str] | None
) -> None:
    calls = []

    def read(*args: object, **options: object) -> list[tuple[str, str]]:
        calls.append((args, options))
        return [("a", "A"), ("b", "B")]

    monkeypatch.setattr(registry, "read_tfds", read)
    assert read_pairs(spec, "test", num_pairs=1, data_dir="d") == [("a", "A")]
    assert calls == [((name, "test"), {"languages": languages, "data_dir": "d"})]


def test_which_splits_there_are(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    monkeypatch.setattr(registry, "tfds_splits", lambda name: ["train"] if name == "x/y" else [])
    known = [(spec, split) for spec in ("dates", "tfds:x/y#a,b", table, "") for split in ("train", "test")]
    assert [has_split(*each) for each in known] == [True, True, True, False, False, False, False, False]


@pytest.mark.parametrize("spec", ["tfds:", "tfds:#en,de", "tfds:x#", "tfds:x#en", "tfds:x#en,de,fr"])
def test_malformed_tfds(spec: str) -> None:
    with pytest.raises(InputError, match=f"`tfds:NAME#SOURCE,TARGET`. Received: '{spec}'"):
        read_pairs(spec)


@pytest.mark.parametrize("spec", ["", "date", "x.csv", "TFDS:x"])
def test_unknown_specification(spec: str) -> None:
    with pytest.raises(InputError, match=f"Pairs must be `dates`, .* Received: '{spec}'"):
        read_pairs(spec)


def test_num_pairs_out_of_range(table: str) -> None:
    with pytest.raises(ValueError, match=r"at least 1\. Received: num_pairs=0"):
        read_pairs(table, num_pairs=0)
