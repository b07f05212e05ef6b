"""Texts of files and tables, for a language model."""

import gzip
from pathlib import Path

import pytest
import tensorflow as tf

from keras_transformer.data import read_texts
from keras_transformer.errors import InputError, NoSplitError

TEXTS = ["the sea, wide", "süß", 'a "dog"']
FILES = {
    "lines.txt": 'the sea, wide\n\nsüß\n  \na "dog"\n',
    "lines.text": 'the sea, wide\nsüß\na "dog"\n',
    "named.tsv": 'id\ttext\n1\tthe sea, wide\n2\tsüß\n3\ta "dog"\n',
    "one.tsv": 'the sea, wide\nsüß\na "dog"\n',
    "table.csv": 'id,text\n1,"the sea, wide"\n2,süß\n3,"a ""dog"""\n',
    "rows.jsonl": '{"id": 1, "text": "the sea, wide"}\n{"text": "süß"}\n{"text": "a \\"dog\\""}\n',
    "rows.json": '[{"text": "the sea, wide"}, {"text": "süß"}, {"text": "a \\"dog\\""}]',
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("is_packed", [False, True])
def test_files_as_people_have_them(name: str, is_packed: bool, tmp_path: Path) -> None:
    path = tmp_path / (f"{name}.gz" if is_packed else name)
    content = FILES[name].encode()
    path.write_bytes(gzip.compress(content) if is_packed else content)
    assert read_texts(path) == TEXTS
    assert read_texts([path, path]) == [*TEXTS, *TEXTS]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv#2", "1\tone\n2\ttwo\n"),
        ("a.txt#2", "1\tone\n2\ttwo\n"),
        ("a.csv#body", "id,body\n1,one\n2,two\n"),
        ("a.csv#2", "id,text\n1,one\n2,two\n"),
        ("a.csv#2", "id,Text\n1,one\n2,two\n"),
        ("a.csv", "text\none\ntwo\n"),
        ("a.csv", "Text\none\ntwo\n"),
        ("a.csv#text", 'text\n"one"\ntwo\n'),
        ("a.csv#1", "one\ntwo\n"),
        ("a.jsonl#body", '{"id": "1", "body": "one"}\n{"body": "two", "id": "2"}\n'),
        ("a.jsonl", '{"number": "1", "body": "one"}\n{"body": "two", "number": 2}\n'),
        ("a.jsonl#inner.body", '{"inner": {"body": "one"}}\n{"inner": {"body": "two"}}\n'),
    ],
)
def test_a_column_is_named(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name.partition("#")[0]).write_text(content)
    assert read_texts(tmp_path / name) == ["one", "two"]


def test_a_pattern(tmp_path: Path) -> None:
    for number in (2, 1):
        (tmp_path / f"part-{number}.txt").write_text(f"text {number}\n")
    assert read_texts(tmp_path / "part-*.txt") == ["text 1", "text 2"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "id,body\n1,one\n", r"no column is named text\. Name the column of the texts: .*a\.csv#id"),
        ("a.jsonl", '{"a": "x", "b": "y"}\n', r"no column is named text.*Received: 'a', 'b'"),
        ("a.csv#text", "id,body\n1,one\n", r"must have one column 'text'\. Received: columns 'id', 'body'"),
        ("a.tsv#3", "1\tone\n", r"a\.tsv:1: needs 3 columns separated by tabs\. Received: 2"),
        ("a.txt", " \n\n", r"No line of .*a\.txt has text\. Received: 2 lines"),
        ("a.txt", "", r"the file is empty"),
        ("a.dat#1", "x\n", r"A table must end in \.tsv, .*Received: .*a\.dat#1"),
        ("absent.txt", None, r"No such file"),
    ],
)
def test_what_cannot_be_read(name: str, content: str | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name.partition("#")[0]).write_text(content)
    with pytest.raises(InputError, match=message):
        read_texts(tmp_path / name)


def test_a_dataset_of_tfds(tmp_path: Path) -> None:
    tfds = pytest.importorskip("tensorflow_datasets")
    kinds = {"text": tfds.features.Text(), "label": tfds.features.ClassLabel(num_classes=2)}
    dataset = tf.data.Dataset.from_tensor_slices({"text": ["one", "two"], "label": [0, 1]})
    tfds.dataset_builders.store_as_tfds_dataset(
        name="small_texts",
        version="1.0.0",
        data_dir=str(tmp_path),
        features=tfds.features.FeaturesDict(kinds),
        split_datasets={"train": dataset},
    )
    assert read_texts("tfds:small_texts", data_dir=tmp_path) == ["one", "two"]
    assert read_texts("tfds:small_texts#text", data_dir=tmp_path) == ["one", "two"]
    with pytest.raises(NoSplitError, match="split 'test': it must be one of train"):
        read_texts("tfds:small_texts", "test", data_dir=tmp_path)
    with pytest.raises(InputError, match=r"must name a text\. Received: 'tfds:small_texts#label'"):
        read_texts("tfds:small_texts#label", data_dir=tmp_path)
