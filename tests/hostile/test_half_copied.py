"""A directory that was copied in part, or changed on its way, is a sentence that names the file."""

import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import keras_transformer as kt
from keras_transformer._files import Checksums
from keras_transformer.errors import InputError
from keras_transformer.export import ServedModel

TRANSLATOR = ("model.keras", "translator.json", "source_tokenizer", "target_tokenizer", Checksums.file)
ROOT = Path(__file__).parents[2]


def refusal(load: Callable[[Path], object], directory: Path) -> str:
    with pytest.raises(InputError) as caught:
        load(directory)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def listed(directory: Path) -> list[str]:
    """Return the names in the checksums."""
    return [line.split("  ")[1] for line in (directory / Checksums.file).read_text().splitlines()[1:]]


def damages(content: bytes, seed: int) -> list[bytes]:
    """Cut content in several places, and flip some of its bits."""
    draw = random.Random(seed)
    cut = [content[:length] for length in {0, 1, len(content) // 2, len(content) - 1}]
    flipped = []
    for _ in range(5):
        position, bit = draw.randrange(len(content)), draw.randrange(8)
        changed = content[position] ^ 1 << bit
        flipped.append(content[:position] + bytes([changed]) + content[position + 1 :])
    return [*cut, *flipped]


def check_every_damage(load: Callable[[Path], object], directory: Path) -> None:
    names = listed(directory)
    for number, name in enumerate(names):
        path = directory / name
        content = path.read_bytes()
        for damaged in damages(content, number):
            path.write_bytes(damaged)
            assert f"{path} is damaged, half copied or of another model" in refusal(load, directory)
        path.unlink()
        assert Path(name).name in refusal(load, directory)
        path.write_bytes(content)


def test_every_file_of_an_export_is_checked(export: Path) -> None:
    assert {"saved_model.pb", "variables/variables.index", "README.md"} <= {*listed(export)}
    check_every_damage(ServedModel, export)
    assert ServedModel(export).translate(["w1ab"])


@pytest.mark.slow
def test_every_file_of_a_translator_is_checked(run: Path) -> None:
    names = {"model.keras", "translator.json"}
    for side in ("source", "target"):
        names |= {f"{side}_tokenizer/{file}" for file in ("tokenizer.json", "vocabulary.txt")}
    assert {*listed(run)} == names  # and no other file of the run, which may change
    check_every_damage(kt.Translator.load, run)
    assert kt.Translator.load(run).translate(["w1ab"])


def test_the_list_itself_is_checked(export: Path) -> None:
    path = export / Checksums.file
    first, *lines = path.read_text().splitlines(keepends=True)
    for number in range(len(lines)):
        path.write_text("".join([first, *lines[:number]]))
        assert f"{path} is damaged: it lists {number} files. Received: {first.strip()!r}." in refusal(
            ServedModel, export
        )
    for content in ("", "\n", "# 1 files\nnothing\n", "\x00" * 99, "# 1 files\n  \n"):
        path.write_text(content)
        refusal(ServedModel, export)


def test_the_list_leads_nowhere_else(export: Path) -> None:
    outside = export.parent / "outside"
    outside.write_text("secret")
    (export / "endless").symlink_to("/dev/zero")
    for name in ("../outside", str(outside), "endless", "assets", "assets/../../outside"):
        (export / Checksums.file).write_text(f"# 1 files\n{Checksums.of(outside)}  {name}\n")
        assert f"is not whole: it has no {name!r}, which SHA256SUMS lists" in refusal(ServedModel, export)


def test_it_is_the_list_of_sha256sum(export: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", Checksums.file], cwd=export, capture_output=True, check=True
    )
    assert done.stdout.decode().count(": OK\n") == len(listed(export))


@pytest.mark.slow
def test_an_export_without_the_list_is_one_line_too(export: Path, command: Callable[..., Any]) -> None:
    """Of earlier exports, and those of other programs, there is none."""
    (export / Checksums.file).unlink()
    assert ServedModel(export).translate(["w1ab"])
    for part in ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"):
        content = (export / part).read_bytes()
        for length in (0, 1, len(content) // 3, len(content) - 1):
            (export / part).write_bytes(content[:length])
            result = command("translate", "--saved-model", export, "w1ab")
            assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.stderr
            assert str(export) in result.stderr
        (export / part).write_bytes(content)


def test_a_translator_of_before_is_loaded() -> None:
    old = ROOT / "tests/golden/fixtures/files/translator"
    assert not (old / Checksums.file).exists()
    assert kt.Translator.load(old).search


@pytest.mark.parametrize("name", ["dates", "cmudict"])
def test_the_exports_of_the_tree_have_their_lists(name: str) -> None:
    directory = ROOT / "saved_models" / name / "1"
    files = {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}
    assert {*listed(directory)} == files - {Checksums.file}
    Checksums.check(directory)
