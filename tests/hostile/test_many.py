"""Attacks in numbers, with fixed seeds: each ends in one line, or changes nothing."""

import io
import json
import random
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.export import ServedModel
from keras_transformer.text import Tokenizer
from keras_transformer_cli import main

pytestmark = pytest.mark.slow


def outcome(function: Callable[[], object]) -> str:
    """Return what became of an attack; another error is raised."""
    try:
        function()
    except InputError as error:
        return "refused with one line" if "\n" not in str(error) else f"several lines: {error}"
    return "accepted"


def flips(content: bytes, num: int, draw: random.Random) -> Iterator[bytes]:
    for _ in range(num):
        position, bit = draw.randrange(len(content)), draw.randrange(8)
        yield content[:position] + bytes([content[position] ^ 1 << bit]) + content[position + 1 :]


def test_2400_flipped_bits(run: Path, export: Path) -> None:
    """In every file that is read of a translator, an export, a run and a tokenizer."""
    readers: list[tuple[Callable[[], object], Path]] = [
        (lambda: kt.Translator.load(run), run),
        (lambda: ServedModel(export), export),
        (lambda: kt.training.load_model(run), run / "checkpoints"),
        (lambda: Tokenizer.load(run / "source_tokenizer"), run / "source_tokenizer"),
    ]
    found: Counter[str] = Counter()
    draw = random.Random(0)
    for read, directory in readers:
        read()
        paths = [path for path in sorted(directory.rglob("*")) if path.is_file()]
        read_paths = [path for path in paths if is_read(read, path)]
        for number, path in enumerate(read_paths):
            content = path.read_bytes()
            share = 600 // len(read_paths) + (number < 600 % len(read_paths))
            for flipped in flips(content, share, draw):
                path.write_bytes(flipped)
                found[outcome(read)] += 1
            path.write_bytes(content)
    assert found == {"refused with one line": 2400}


def is_read(read: Callable[[], object], path: Path) -> bool:
    """Whether a reader notices that a file is empty."""
    content = path.read_bytes()
    path.write_bytes(b"")
    refused = outcome(read) != "accepted"
    path.write_bytes(content)
    return refused


BAD_VALUES: list[Any] = [
    -1,
    10**30,
    "eval",
    ["__import__"],
    {"class_name": "__lambda__", "config": {"value": "4wAAAA=="}},
    {
        "module": "os",
        "class_name": "system",
        "config": {"command": "touch attacked"},
        "registered_name": None,
    },
    {"module": "builtins", "class_name": "function", "config": "eval", "registered_name": "function"},
    {"module": "keras.layers", "class_name": "Lambda", "config": {"function": "x"}, "registered_name": None},
]


def poisoned(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Put every bad value in the place of every option, and of what says which class is made."""
    for value in ("os>system", "builtins>eval", "keras.layers>Lambda", "__lambda__", -1, [], {}, ""):
        yield {**config, "registered_name": value, "class_name": value, "module": "os"}
    for name in sorted(config["config"].keys() - {"name"}):  # any name will do
        for value in BAD_VALUES:
            yield {**config, "config": {**config["config"], name: value}}


def with_part(path: Path, name: str, content: bytes) -> bytes:
    """Return an archive with another part."""
    changed = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(changed, "w") as copy:
        for part in archive.namelist():
            copy.writestr(part, content if part == name else archive.read(part))
    return changed.getvalue()


def test_poisoned_configurations(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.keras"
    kt.Translator.load(run).model.save(path)
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))
    original, found = path.read_bytes(), {}
    for number, other in enumerate(poisoned(config)):
        path.write_bytes(original)
        path.write_bytes(with_part(path, "config.json", json.dumps(other).encode()))
        found[number, json.dumps(other)] = outcome(lambda: kt.training.load_model(path))
    assert len(found) >= 150
    strays = {words[-300:]: what for (_, words), what in found.items() if what != "refused with one line"}
    assert strays == {}
    assert not Path("attacked").exists()


def archives(path: Path) -> Iterator[tuple[str, bytes]]:
    """Cut, swap, double, rename and leave out what an archive has."""
    content, draw = path.read_bytes(), random.Random(1)
    for length in sorted({0, 1, 4, 22, *(draw.randrange(len(content)) for _ in range(30))}):
        yield f"cut at {length}", content[:length]
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for name in parts:
        yield f"without {name}", archive_of({other: part for other, part in parts.items() if other != name})
        for other in parts:
            if other != name:
                yield f"{other} as {name}", archive_of({**parts, name: parts[other]})
        for junk in (b"", b"\0" * 99, b"\x89HDF\r\n\x1a\n" + b"\xff" * 999, b"[" * 10**5, b"null", b"{}"):
            if name != "metadata.json":
                yield f"{junk[:9]!r} as {name}", archive_of({**parts, name: junk})
    for junk in (
        b"PK\x03\x04",
        b"PK\x05\x06" + bytes(18),
        b"\x1f\x8b" + bytes(99),
        b"\x89HDF\r\n\x1a\n",
        b"{}",
    ):
        yield f"{junk[:9]!r}", junk


def archive_of(parts: dict[str, bytes]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return written.getvalue()


def test_damaged_archives(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    kt.Translator.load(run).model.save(path)
    found = {}
    for words, content in list(archives(path)):
        path.write_bytes(content)
        found[words] = outcome(lambda: kt.training.load_model(path))
    assert len(found) >= 50
    # Keras does not read its own metadata.
    strays = {words: what for words, what in found.items() if "metadata.json" not in words.split(" as ")[-1]}
    assert {words: what for words, what in strays.items() if what != "refused with one line"} == {}


def hostile_texts(num: int) -> list[str]:
    draw = random.Random(2)
    pieces = [
        "\0",
        "\u202e",
        "\ud800",
        "e" + "\u0301" * 50,
        "\u200d",
        "[END]",
        "[PAD]",
        "\ufffd",
        "%s%n",
        "\x1b[2J",
    ]
    pieces += ["a", "cab", " ", "\t", "\n", "\U0010ffff", "\u05e9\u05dc", "\ufeff", "'; --", "../", "\u2581"]
    return ["".join(draw.choices(pieces, k=draw.randrange(12))) for _ in range(num)]


@pytest.mark.filterwarnings("ignore::keras_transformer.tasks.TruncationWarning")
def test_15000_hostile_texts(run: Path) -> None:
    """No text crashes, or changes what its neighbors become."""
    translator, texts = kt.Translator.load(run), hostile_texts(15_000)
    translator.search = kt.decoding.GreedySearch()
    answers = translator.translate(texts, batch_size=512)
    order = np.random.default_rng(3).permutation(len(texts))
    others = translator.translate([texts[number] for number in order], batch_size=512)
    assert [answers[number] for number in order] == others


WORDS = [
    "",
    "\x07",
    "-1",
    "nan",
    "inf",
    "1e999",
    "10" * 200,
    "x",
    "/dev/null/x",
    "../../etc/shadow",
    "\udcff",
]


# What is not there, so that no command begins its work, whatever it thinks of the word before.
MISSING = {
    "train": ["--pairs", "missing.tsv"],
    "translate": ["--model", "missing", "text"],
    "classify": ["--model", "missing", "text"],
    "tag": ["--model", "missing", "text"],
    "generate": ["--model", "missing", "text"],
    "evaluate": ["--model", "missing", "--pairs", "missing.tsv"],
    "export": ["missing"],
    "plan": ["--model", "missing"],
    "import": ["missing", "new"],
    "plot": ["--model", "missing"],
}


def commands() -> Iterator[tuple[str, ...]]:
    """Give every option of every verb every word."""
    context = click.Context(main)
    for verb in main.list_commands(context):
        for parameter in main.get_command(context, verb).params:
            if isinstance(parameter, click.Option) and not parameter.is_flag:
                for word in WORDS:
                    yield verb, parameter.opts[0], word, *MISSING[verb]


def test_bad_command_lines(command: Callable[..., Any]) -> None:
    """None ends in a traceback, or leaves a file."""
    found: dict[tuple[str, ...], str] = {}
    for words in commands():
        result = command(*words)
        lines = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
        is_line = isinstance(result.exception, SystemExit) and result.exit_code == 2 and len(lines) == 1
        found[words] = "refused with one line" if is_line else repr(result.exception or result.output)
    assert len(found) >= 385
    assert [(words, what) for words, what in found.items() if what != "refused with one line"] == []
    assert not list(Path().iterdir())
