"""Files as people have them are read right where it is certain; where it is not, a message asks.

The contents have the form of public files and of what spreadsheets, corpora and data sets write.
`PYTHONPATH=. python tests/data/test_messy_files.py` prints what becomes of each file, and counts.
"""

import bz2
import csv
import gzip
import io
import json
import logging
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from keras_transformer.data import ParallelText, read_pairs
from keras_transformer.errors import InputError
from keras_transformer.runs import Run, RunConfig

Pairs = list[tuple[str, str]]
THREE = [("one", "un"), ("two", "deux"), ("three", "trois")]
GREETINGS = [
    ("Good day.", "Guten Tag."),
    ("See you soon!", "Bis bald!"),
    ("Thank you very much.", "Vielen Dank."),
]


class Messy(NamedTuple):
    """Files by name, and the pairs that are right; None where only a person can tell."""

    files: dict[str, bytes]
    right: Pairs | None
    columns: str = ""
    "What follows the name of the file."


def lines(*rows: str, end: str = "\n") -> bytes:
    return "".join(row + end for row in rows).encode()


def table(pairs: Pairs, delimiter: str = "\t", quoting: int = csv.QUOTE_MINIMAL, header: str = "") -> bytes:
    """Writes what Python's `csv` writes, which is what Excel writes."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator="\r\n")
    if header:
        writer.writerow(header.split())
    writer.writerows(pairs)
    return text.getvalue().encode()


def json_lines(*rows: object) -> bytes:
    return lines(*map(json.dumps, rows))


def tmx(*units: str, doctype: str = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">', source: str = "en") -> bytes:
    header = f'<header creationtool="x" adminlang="en" srclang="{source}" datatype="plaintext"/>'
    body = "\n".join(f"<tu>{unit}</tu>" for unit in units)
    file = f'<?xml version="1.0"?>\n{doctype}\n<tmx version="1.4">{header}<body>\n{body}\n</body></tmx>\n'
    return file.encode()


def tuv(language: str, text: str) -> str:
    return f'<tuv xml:lang="{language}"><prop type="x">y</prop><seg>{text}</seg></tuv>'


def sgm(kind: str, *texts: str) -> bytes:
    segments = "\n".join(f'<seg id="{number}">{text}</seg>' for number, text in enumerate(texts, start=1))
    doc = f'<doc docid="d" sysid="ref">\n<p>\n{segments}\n</p>\n</doc>'
    return f'<{kind} setid="t" srclang="any">\n{doc}\n</{kind}>\n'.encode()


QUOTES = [("A tab\tinside.", "Une tab\tdedans."), ('He said "no".', "Il dit non.")]
BREAKS = [("Two\nlines.", "Zwei\nZeilen."), ("One.", "Eine.")]
SPEECH = [(f'"I have {number}."', f'"Ich habe {number}."') for number in range(12)]
NESTED = [{"translation": {"en": source, "de": target}} for source, target in GREETINGS]
BOMB = '<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'

DATASET = lines(
    "<?xml version='1.0' encoding='utf-8'?>",
    "<dataset id='x'><doc><src lang='en'><p><seg id='1'>One</seg></p></src>",
    "<ref lang='de'><p><seg id='1'>Eins</seg></p></ref></doc></dataset>",
)

MESSY = {
    # Spreadsheets.
    "Excel's quotes and tabs": Messy({"x.tsv": b"\xef\xbb\xbf" + table(QUOTES)}, QUOTES),
    "line breaks in cells": Messy({"x.tsv": table(BREAKS)}, BREAKS),
    "doubled quotes alone": Messy({"x.tsv": table(QUOTES[1:] + THREE)}, QUOTES[1:] + THREE),
    "one row of quoted tabs": Messy({"x.tsv": table(QUOTES[:1])}, QUOTES[:1]),
    "each cell in quotes": Messy({"x.tsv": table(THREE * 4, quoting=csv.QUOTE_ALL)}, THREE * 4),
    "two rows in quotes": Messy({"x.tsv": table(THREE[:2], quoting=csv.QUOTE_ALL)}, None),
    "a header of roles": Messy({"x.tsv": table(THREE, header="source target")}, THREE),
    "a header of languages": Messy({"x.tsv": table(GREETINGS, header="English German")}, GREETINGS),
    "a header of codes": Messy({"x.tsv": table(GREETINGS, header="en de")}, GREETINGS),
    "a header with the target first": Messy(
        {"x.tsv": table([("un", "one"), ("deux", "two")], header="target_text source_text")}, THREE[:2]
    ),
    "a header with an index": Messy(
        {"x.tsv": lines("\ten\tde", *(f"{n}\t{a}\t{b}" for n, (a, b) in enumerate(GREETINGS)))}, GREETINGS
    ),
    "comma": Messy({"x.csv": table(THREE, ",", header="en fr")}, THREE),
    "semicolons of a German Excel": Messy(
        {
            "x.csv": b"\xef\xbb\xbf"
            + table([("Yes, sir.", "Ja, Herr."), ("No; never.", "Nein.")], ";", header="en de")
        },
        [("Yes, sir.", "Ja, Herr."), ("No; never.", "Nein.")],
    ),
    "the line that names the delimiter": Messy(
        {"x.csv": b"sep=;\r\n" + table(THREE, ";", header="en fr")}, THREE
    ),
    "named columns": Messy(
        {"x.csv": table([("7", "un", "one", "x"), ("8", "deux", "two", "y")], ",", header="nr fra eng note")},
        THREE[:2],
        "#eng,fra",
    ),
    "numbered columns without a header": Messy({"x.csv": table(THREE, ",")}, THREE, "#1,2"),
    "no header": Messy({"x.csv": table(THREE, ",")}, None),
    "a comma outside of quotes": Messy({"x.csv": lines("en,fr", "Yes, sir,Oui", "No,Non")}, None),
    "UTF-16": Messy({"x.tsv": "one\tun\n".encode("utf-16")}, None),
    "UTF-16 without a mark": Messy({"x.tsv": "one\tun\ntwo\tdeux\n".encode("utf-16-le")}, None),
    "Latin-1": Messy({"x.tsv": "summer\tété\n".encode("latin-1")}, None),
    # Ends of lines.
    "CR alone": Messy({"x.tsv": lines(*map("\t".join, THREE), end="\r")}, THREE),
    "CR alone on both sides": Messy(
        {"x.en": lines("one", "two", "three", end="\r"), "x.fr": lines("un", "deux", "trois", end="\r")},
        THREE,
    ),
    "CR CR LF": Messy({"x.tsv": lines(*map("\t".join, THREE), end="\r\r\n")}, THREE),
    "CR inside of lines": Messy({"x.en": b"one\rand two\nthree\n", "x.fr": b"un\rtwo\ntrois\n"}, None),
    # Quotes that belong to the texts.
    "an unclosed quote": Messy(
        {"x.tsv": lines('"Come in.\t"Komm rein.', 'Sit down."\tSetz dich."')},
        [('"Come in.', '"Komm rein.'), ('Sit down."', 'Setz dich."')],
    ),
    "a quote closed in the next line": Messy(
        {"x.tsv": lines('"Come in.\t»Komm rein.', 'Sit down."\tSetz dich.«')},
        [('"Come in.', "»Komm rein."), ('Sit down."', "Setz dich.«")],
    ),
    "quotes inside": Messy(
        {"x.tsv": lines('He said "no".\tEr sagte "nein".')}, [('He said "no".', 'Er sagte "nein".')]
    ),
    "inches": Messy(
        {"x.tsv": lines('5"\t5"', '7" or 8"\t7" oder 8"')}, [('5"', '5"'), ('7" or 8"', '7" oder 8"')]
    ),
    "speech among others": Messy({"x.tsv": lines(*map("\t".join, [*SPEECH[:2], *THREE]))}, None),
    # Columns that are no texts.
    "Tatoeba's numbers": Messy(
        {"x.tsv": lines("1276\tLet's try.\t2481\tVersuchen wir es.", "1277\tI sleep.\t77\tIch schlafe.")},
        [("Let's try.", "Versuchen wir es."), ("I sleep.", "Ich schlafe.")],
    ),
    "a number in front": Messy(
        {"x.tsv": lines("17\tI go home.\tIch gehe heim.", "4\tGo away.\tGeh weg.")}, None
    ),
    "the same with columns": Messy(
        {"x.tsv": lines("17\tI go home.\tIch gehe heim.", "4\tGo away.\tGeh weg.")},
        [("I go home.", "Ich gehe heim."), ("Go away.", "Geh weg.")],
        "#2,3",
    ),
    "scores of a mined corpus": Messy(
        {"x.tsv": lines("1.2512\tI go home.\tIch gehe heim.", "1.2498\tGo away.\tGeh weg.")}, None
    ),
    "addresses of a crawl": Messy(
        {
            "x.tsv": lines(
                *(f"https://a.org/{n}\thttps://a.de/{n}\t{a}\t{b}" for n, (a, b) in enumerate(GREETINGS))
            )
        },
        GREETINGS,
    ),
    "manythings": Messy(
        {
            "fra.txt": lines(
                "Go.\tVa !\tCC-BY 2.0 (France) Attribution: tatoeba.org #2877272 (CM) & #1158250 (wittydev)"
            )
        },
        [("Go.", "Va !")],
    ),
    "numbers and their names": Messy(
        {"x.tsv": lines("1\tone", "2\ttwo", "3\tthree")}, [("1", "one"), ("2", "two"), ("3", "three")]
    ),
    # Formats.
    "identifiers of Danish and English": Messy(
        {"x.csv": table([("1", *each) for each in GREETINGS], ",", header="id da en")}, GREETINGS
    ),
    "words that look like other files": Messy(
        {"x.tsv": b"BZhou won\tBZhou gewann\nPAR1 protein\tPAR1-Protein\n"},
        [("BZhou won", "BZhou gewann"), ("PAR1 protein", "PAR1-Protein")],
    ),
    "JSON lines": Messy({"x.jsonl": json_lines(*({"source": a, "target": b} for a, b in THREE))}, THREE),
    "JSON lines of a translation set": Messy({"x.jsonl": json_lines(*NESTED)}, GREETINGS),
    "the other direction": Messy(
        {"x.jsonl": json_lines(*NESTED)}, [(target, source) for source, target in GREETINGS], "#de,en"
    ),
    "an array of JSON": Messy({"x.json": json.dumps(NESTED, indent=1).encode()}, GREETINGS),
    "JSON lines, compressed": Messy({"x.jsonl.gz": gzip.compress(json_lines(*NESTED))}, GREETINGS),
    "JSON lines with an id": Messy(
        {
            "x.jsonl": json_lines(
                *({"id": n, "score": 0.5, "en": a, "fr": b} for n, (a, b) in enumerate(THREE))
            )
        },
        THREE,
    ),
    "JSON lines with a number": Messy(
        {"x.jsonl": json_lines(*({"en": a, "fr": b, "similarity": 0.5} for a, b in THREE))}, THREE
    ),
    "JSON lines of sums": Messy(
        {"x.jsonl": json_lines({"source": "1 + 1", "target": 2}, {"source": "2 + 2", "target": 4.0})},
        [("1 + 1", "2"), ("2 + 2", "4")],
    ),
    "JSON lists with a number": Messy({"x.jsonl": b'["1 + 1", 2]\n'}, [("1 + 1", "2")]),
    "JSON lines of numbers with a kind": Messy(
        {"x.jsonl": json_lines({"question": "3 + 4?", "answer": "7", "category": "sum"})}, [("3 + 4?", "7")]
    ),
    "several languages": Messy(
        {"x.jsonl": json_lines({"translation": {"en": "one", "de": "eins", "fr": "un"}})}, None
    ),
    "TMX": Messy({"x.tmx": tmx(*(tuv("en", a) + tuv("de-DE", b) for a, b in GREETINGS))}, GREETINGS),
    "TMX with the source behind": Messy(
        {"x.tmx": tmx(*(tuv("de", b) + tuv("en", a) for a, b in GREETINGS))}, GREETINGS
    ),
    "TMX with countries in the header only": Messy(
        {"x.tmx": tmx(*(tuv("de", b) + tuv("en", a) for a, b in GREETINGS), source="en-US")}, GREETINGS
    ),
    "TMX with two countries of a language": Messy(
        {"x.tmx": tmx(tuv("en-GB", "lift") + tuv("en_US", "elevator"), source="en_US")},
        [("elevator", "lift")],
    ),
    "TMX with marks": Messy(
        {
            "x.tmx": tmx(
                tuv("en", 'A <hi>red</hi> &amp; <ph x="1">&lt;br/&gt;</ph>hat') + tuv("fr", "Un chapeau")
            )
        },
        [("A red & hat", "Un chapeau")],
    ),
    "TMX in UTF-16": Messy(
        {
            "x.tmx": tmx(tuv("en", "é") + tuv("de", "ü"))
            .decode()
            .replace('1.0"', '1.0" encoding="UTF-16"')
            .encode("utf-16")
        },
        [("é", "ü")],
    ),
    "a bomb of entities": Messy({"x.tmx": tmx(tuv("en", "&b;") + tuv("de", "b"), doctype=BOMB)}, None),
    "segments of WMT": Messy(
        {"x.en.sgm": sgm("srcset", "Text &amp; one", "R&D"), "x.de.sgm": sgm("refset", "Text", "F&E")},
        [("Text & one", "Text"), ("R&D", "F&E")],
    ),
    "segments under another name": Messy(
        {"x.en": sgm("srcset", "One."), "x.de": sgm("refset", "Eins.")}, [("One.", "Eins.")]
    ),
    "WMT's newer XML": Messy(
        dict.fromkeys(("a.xml", "b.xml"), DATASET),
        None,
    ),
    "IWSLT's lines of tags": Messy(
        {
            name: lines("<url>http://x</url>", "<title>T</title>", text, "<reviewer>R</reviewer>")
            for name, text in (("a.en", "One."), ("a.de", "Eins."))
        },
        None,
    ),
    "TMX as lines": Messy({"a.tmx": tmx(tuv("en", "One")), "b.tmx": tmx(tuv("de", "Eins"))}, None),
    "tables as lines": Messy({"a.tsv": lines("1\tone", "2\ttwo"), "b.tsv": lines("1\tun", "2\tdeux")}, None),
    "one file for both sides": Messy({"x.en": lines("one", "two", "three")}, None),
    "a copy for the other side": Messy(
        {"x.en": lines(*"abcdefghijkl"), "x.de": lines(*"abcdefghijkl")}, None
    ),
    "entities of Moses": Messy(
        {"a.en": lines("it &apos;s me", "no"), "a.de": lines("ich bin &apos;s", "nein")}, None
    ),
}


def outcome(messy: Messy, folder: Path, warned: Callable[[], list[str]]) -> tuple[str, object]:
    """Returns whether files are read right, asked about (an error or a warning) or wrong; and the details."""
    paths = [folder / name for name in messy.files]
    for path in paths:
        path.write_bytes(messy.files[path.name])
    is_table = len(paths) == 1 and paths[0].suffix != ".en"
    origin = f"{paths[0]}{messy.columns}" if is_table else (paths[0], paths[-1])
    try:
        pairs = read_pairs(origin)
    except InputError as error:
        return ("asked" if str(folder) in str(error) else "wrong"), str(error)
    if pairs == messy.right:
        return "right", pairs
    return ("asked" if warned() else "wrong"), pairs


@pytest.mark.parametrize("name", MESSY)
def test_messy_file(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found, details = outcome(MESSY[name], tmp_path, lambda: caplog.messages)
    assert found == ("asked" if MESSY[name].right is None else "right"), details


@pytest.mark.parametrize("name", ["x.csv#en,de", "x.csv#1,2", "x.csv"])
def test_a_table_is_read_alike_from_everywhere(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(table(GREETINGS, ",", header="en de"))
    path = f"{tmp_path}/{name}"
    assert read_pairs(path) == read_pairs(tmp_path / name) == list(ParallelText(path)) == GREETINGS
    run = Run(RunConfig().override(pairs=path, validation_fraction=0.3))
    assert sorted([*run.data.train, *run.data.validation]) == sorted(GREETINGS)
    assert read_pairs(f"{path.partition('#')[0]}#2,1") == [(target, source) for source, target in GREETINGS]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.jsonl", b'{"a": "x", "b": "y"}\n{"a": \n', r"x\.jsonl:2 is not valid JSON"),
        (
            "x.jsonl",
            b'{"a": "x", "b": "y"}\n7\n',
            r"x\.jsonl:2 must be a JSON object of texts\. Received: '7'",
        ),
        (
            "x.tsv",
            gzip.compress(b"one\tun\n", mtime=0),
            r"x\.tsv: a file that is compressed by gzip must end in \.gz",
        ),
        ("x.jsonl", b'{"a": "x", "b": "y"}\n["a", "b"]\n', r"x\.jsonl:2: must be an object as the first row"),
        ("x.jsonl", b'["a", "b"]\n{"a": "x", "b": "y"}\n', r"x\.jsonl:2: must be a list as the first row"),
        (
            "x.jsonl",
            b'{"messages": [{"role": "user"}, {}]}\n' * 2,
            r"each line must be a JSON object of texts",
        ),
        ("x.csv", b"Deutsch;Englisch\nja;yes\n", r"such as .*x\.csv#Deutsch,Englisch"),
        ("x.csv", b"Good morning.,Guten Morgen.\na,b\n", r"such as .*x\.csv#1,2\."),
        ("x.tsv", bz2.compress(b"one\tun\n"), r"bzip2 -d"),
        ("x.tsv", lzma.compress(b"one\tun\n"), r"must be text\. Received: .*xz -d"),
        ("x.csv", b"PK\x03\x04\0\0", r"a file of zip or Excel: unzip it, or save the table as CSV"),
        ("x.jsonl", b"[" * 100_000, r"is not valid JSON: maximum recursion"),
        ("x.jsonl", b'{"a": "x"}\n', r"the names of its columns do not say"),
        ("x.json", b'{"a": [], "b": []}', r"must hold an object of texts on each line"),
        ("x.csv", b"one\ntwo\n", r"x\.csv:1: needs 2 columns"),
        ("x.csv", b'en,de\n"a"b,c\n', r"x\.csv:2: is not valid CSV"),
        ("x.csv#en,fr", b"en,de\na,b\n", r"must have one column 'fr'\. Received: columns 'en', 'de'"),
        ("x.csv#en", b"en,de\na,b\n", r"FILE#SOURCE,TARGET"),
        ("x.tsv#2,3", b"a\tb\n", r"x\.tsv:1: needs 3 columns separated by tabs\. Received: 2"),
        ("x.tmx", b"<tmx><body><tu>", r"x\.tmx is not valid XML"),
        ("x.tmx", b"<tmx><body></body></tmx>", r"it has no rows"),
    ],
)
def test_a_file_that_cannot_be_read(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name.partition("#")[0]).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_pairs(f"{tmp_path}/{name}")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.jsonl", '{"translation": {"en": "a", "de": "b"}, "domains": []}\n' * 2),
        ("x.jsonl", '{"en": "a", "boxes": [[1, 2]], "de": "b"}\n' * 2),
        ("x.json", '{"data": [["a", "b"], ["a", "b"]]}'),
        ("x.json", '{"data": [{"en": "a", "de": "b"}, {"en": "a", "de": "b"}], "version": 1}'),
    ],
)
def test_lists_in_json_are_rows_or_are_left_out(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    columns = "" if "en" in content else "#1,2"
    assert read_pairs(f"{tmp_path / name}{columns}") == [("a", "b")] * 2


def test_other_files_in_a_directory_of_tables(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a\tb\nc\td\n", encoding="utf-8")
    (tmp_path / "license.cc.txt").write_text("CC0\n", encoding="utf-8")
    assert read_pairs(tmp_path) == [("a", "b"), ("c", "d")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_no_file_of_pairs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.tsv")
    with pytest.raises(InputError, match="not a regular file"):
        read_pairs(tmp_path / "x.tsv")


def test_half_a_character_of_json_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(rb'{"source": "\ud83d\ude00 \ud83d.", "target": "x"}')
    assert read_pairs(tmp_path / "x.jsonl") == [("\U0001f600 \N{REPLACEMENT CHARACTER}.", "x")]


def _print_counts() -> None:
    import collections
    import tempfile

    counts, messages = collections.Counter[str](), list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("keras_transformer").addHandler(handler)
    for name, messy in MESSY.items():
        messages.clear()
        with tempfile.TemporaryDirectory() as folder:
            found, details = outcome(messy, Path(folder), lambda: messages)
        wanted = "asked" if messy.right is None else "right"
        counts[found if found == "wrong" else f"{found} (wanted: {wanted})"] += 1
        print(f"{found:6} {wanted:6} {name}: {details} {messages}"[:300])
    print(len(MESSY), dict(counts))


if __name__ == "__main__":
    _print_counts()
