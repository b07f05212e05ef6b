"""Labelled texts in the forms in which people have them: tables, JSON, folders, two files."""

import gzip
import json
import logging
from pathlib import Path

import keras
import pytest

from keras_transformer.data import read_labelled, split_pairs
from keras_transformer.errors import InputError

REVIEWS = [("Good, really good.", "pos"), ('He said "no".', "neg"), ("Fine enough.", "pos")]


def written(directory: Path, name: str, content: str | bytes) -> str:
    path = directory / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.tsv", 'Good, really good.\tpos\nHe said "no".\tneg\nFine enough.\tpos\n'),
        ("x.tsv", '\ufeffpos\tGood, really good.\r\nneg\tHe said "no".\r\npos\tFine enough.\r\n'),
        ("x.txt", 'label\ttext\npos\tGood, really good.\nneg\tHe said "no".\npos\tFine enough.\n'),
        ("x.csv", 'review,sentiment\n"Good, really good.",pos\n"He said ""no"".",neg\nFine enough.,pos\n'),
        (
            "x.csv",
            'class;id;comment\npos;1;Good, really good.\nneg;2;"He said ""no""."\npos;3;Fine enough.\n',
        ),
        ("x.csv#3,1", 'pos,1,"Good, really good."\nneg,2,"He said ""no""."\npos,3,Fine enough.\n'),
        ("x.csv#b,a", 'a,c,b\npos,1,"Good, really good."\nneg,2,"He said ""no""."\npos,3,Fine enough.\n'),
        ("x.jsonl", "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in REVIEWS)),
        ("x.json", json.dumps([{"sentence": text, "idx": 3, "label": label} for text, label in REVIEWS])),
        ("x.json", json.dumps({"data": [{"text": text, "label": [label]} for text, label in REVIEWS]})),
        ("x.jsonl", "".join(json.dumps([text, label]) + "\n" for text, label in REVIEWS)),
    ],
)
def test_forms(tmp_path: Path, name: str, content: str) -> None:
    file, _, columns = name.partition("#")
    path = written(tmp_path, file, content)
    assert read_labelled(f"{path}#{columns}" if columns else path) == REVIEWS


def test_numbers_are_labels_and_compressed_shards_are_one_text(tmp_path: Path) -> None:
    for number in (2, 1):
        rows = f'{{"text": "t{number}", "label": {number}}}\n{{"text": "u{number}", "label": 0.0}}\n'
        written(tmp_path, f"part-{number}.jsonl.gz", gzip.compress(rows.encode()))
    wanted = [("t1", "1"), ("u1", "0"), ("t2", "2"), ("u2", "0")]
    assert read_labelled(str(tmp_path / "part-*.jsonl.gz")) == wanted
    assert read_labelled(tmp_path) == wanted


def test_two_files_of_lines(tmp_path: Path) -> None:
    texts = written(tmp_path, "texts.txt", "a b\nc d\n")
    assert read_labelled((texts, written(tmp_path, "labels.txt", "x\ny\n"))) == [("a b", "x"), ("c d", "y")]


def test_folders_are_read_as_keras_does(tmp_path: Path) -> None:
    for label in ("neg", "pos"):
        (tmp_path / "train" / label).mkdir(parents=True)
        for number in range(3):
            written(tmp_path / "train" / label, f"{number}.txt", f"{label} {number}\nsecond line")
    examples = read_labelled(tmp_path / "train")
    dataset = keras.utils.text_dataset_from_directory(tmp_path / "train", shuffle=False, verbose=False)
    [(texts, numbers)] = dataset.as_numpy_iterator()
    wanted = zip(texts.tolist(), numbers.tolist(), strict=True)
    assert examples == [(text.decode(), ("neg", "pos")[number]) for text, number in wanted]
    with pytest.raises(InputError, match=r"one split, such as .*train. Received: folders 'train'"):
        read_labelled(tmp_path)


def test_files_next_to_the_folders_are_no_texts(tmp_path: Path) -> None:
    for label in ("neg", "pos"):
        (tmp_path / label).mkdir()
        written(tmp_path / label, "0.TXT", label)
    for name in ("urls_pos.txt", "README.txt", "metadata.json"):
        written(tmp_path, name, "x")
    assert read_labelled(tmp_path) == [("neg", "neg"), ("pos", "pos")]


def test_a_numbered_header_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = ["1,good,pos", "2,bad,neg", "3,fine,pos", "4,poor,neg"]
    assert len(read_labelled(f"{written(tmp_path, 'a.csv', chr(10).join(rows))}#2,3")) == 4
    assert caplog.messages == []
    path = written(tmp_path, "b.csv", "\n".join(["Nr,Text,Kind", *rows]))
    assert len(read_labelled(f"{path}#2,3")) == 5
    assert "with the label 'Kind'. If it holds the names of the columns, " in caplog.messages[-1]
    assert len(read_labelled(f"{path}#Text,Kind")) == 4
    with pytest.raises(InputError, match="needs 6 columns"):
        read_labelled(f"{path}#5,6")


def test_empty_texts_are_left_out_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for name, content in (("a/0.txt", "one"), ("a/1.txt", ""), ("b/0.txt", " \n"), ("b/1.txt", "two")):
        written(tmp_path, name, content)
    assert read_labelled(tmp_path) == [("one", "a"), ("two", "b")]
    assert "Left out 2 of 4 rows" in caplog.text


@pytest.mark.parametrize("separator", ["|", ";", ", "])
def test_several_labels_in_a_cell(tmp_path: Path, separator: str) -> None:
    path = written(tmp_path, "x.tsv", f"text\tlabels\nA.\tx{separator}y\nB.\t\nC.\ty\n")
    assert read_labelled(path, multi_label=True) == [("A.", ("x", "y")), ("B.", ()), ("C.", ("y",))]


def test_several_labels_in_a_list(tmp_path: Path) -> None:
    wanted = [("A.", ("x", "y|z")), ("B.", ()), ("C.", ("1",))]
    rows = ['{"text": "A.", "labels": ["x", "y|z", "x"]}', '{"text": "B.", "labels": null}']
    path = written(tmp_path, "x.jsonl", "\n".join([*rows, '{"text": "C.", "labels": [1]}']))
    assert read_labelled(path, multi_label=True) == wanted
    path = written(tmp_path, "x.csv", 'text,labels\nA.,"[""x"", ""y|z""]"\nB.,\nC.,[1]\n')
    assert read_labelled(path, multi_label=True) == wanted
    # As pandas writes a column of lists.
    path = written(tmp_path, "p.csv", "text,labels\nA.,\"['x', 'y|z']\"\nB.,[]\nC.,['1']\n")
    assert read_labelled(path, multi_label=True) == wanted
    path = written(tmp_path, "b.csv", "text,label\nA.,[x] y\nB.,[x\nC.,['x' 'y']\nD.,[1j]\n")
    assert read_labelled(path) == [("A.", "[x] y"), ("B.", "[x"), ("C.", "['x' 'y']"), ("D.", "[1j]")]
    path = written(tmp_path, "y.csv", "text,labels\nA.,x y\nB.,y\n")
    assert read_labelled(path, multi_label=True, separator=" ") == [("A.", ("x", "y")), ("B.", ("y",))]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "text,label\nA.,x\nB.,\n", "1 of 2 texts have no label.* Received: 'B.'"),
        ("x.csv", 'text,label\nA.,"x\ny"\nB.,x\n', r"a label must be one line. Received: 'x\\ny'"),
        ("x.csv", "text,label\nA.,nan\nB.,x\n", "1 of 2 texts have no label"),
        ("x.jsonl", '{"text": "A.", "label": NaN}', "1 of 1 texts have no label"),
        ("x.jsonl", '{"text": "A.", "label": ["x", "y"]}', "have several labels.*`multi_label`"),
        ("x.csv", "text,label\n ,x\n", "has no text. Received: 1 rows"),
        ("x.csv", "what,ever\nA.,x\n", r"which columns are texts and labels.*x.csv#1,2"),
        ("x.jsonl", '{"what": "A.", "label": "x"}', r"the names of its columns do not say.*'what', 'label'"),
        ("x.tsv", "A.\tx\t1\n", "does not say which columns"),
        ("x.tsv", "ab\tcd\n", "its columns do not say which"),
        ("x.tsv", "label\ttext\nx\tA.\ny\n", r"x.tsv:3: needs 2 columns separated by tabs. Received: 1"),
        ("x.csv", b"text,label\nA\xff.,x\n", r"x.csv:2:2: not valid UTF-8. Received: byte 0xff"),
        ("x.csv", "", "the file is empty"),
        ("x.bin", "A.", "A file of labelled texts must end in"),
    ],
)
def test_what_cannot_be_read_says_so(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_labelled(written(tmp_path, name, content))


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    path = written(tmp_path, "x.csv", "text,label\nA.,x\n")
    with pytest.raises(InputError, match=r"must have one column 'class'. Received: columns 'text', 'label'"):
        read_labelled(f"{path}#text,class")
    with pytest.raises(InputError, match=r"named as FILE#TEXT,LABEL"):
        read_labelled(f"{path}#text")


def test_nearly_as_many_labels_as_texts_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    read_labelled(written(tmp_path, "x.tsv", "text\tlabel\n" + "".join(f"A text.\t{n}\n" for n in range(40))))
    assert "40 texts have 40 different labels" in caplog.text


def test_the_choice_of_columns_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    read_labelled(written(tmp_path, "x.tsv", "x\tOne text.\nx\tAnother text.\ny\tA third.\n"))
    assert "texts of column 2, labels of column 1" in caplog.text


def test_labelled_texts_are_split_like_pairs() -> None:
    examples = [(f"text {number % 30}", ("a",) * (number % 2)) for number in range(60)]
    training, validation = split_pairs(examples, validation_fraction=0.2)
    assert sorted(training + validation) == sorted(examples)
    assert not {text for text, _ in training} & {text for text, _ in validation}
    assert split_pairs([(text, "a") for text, _ in examples], validation_fraction=0.2)[1] == [
        (text, "a") for text, _ in validation
    ]
