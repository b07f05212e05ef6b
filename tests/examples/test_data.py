"""The files in `examples/data` are those that `make.py` writes, and have what the pages say of them."""

import runpy
from pathlib import Path

import numpy as np
import pytest

DATA = Path(__file__).parents[2] / "examples/data"
NAMES = sorted(path.name for path in DATA.iterdir() if path.suffix not in (".py", ".toml", ".npz"))


def lines(name: str) -> list[str]:
    return (DATA / name).read_text("utf-8").splitlines()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    runpy.run_path(str(DATA / "make.py"))["main"](directory)
    return directory


@pytest.mark.parametrize("name", NAMES)
def test_texts(name: str, made: Path) -> None:
    assert (DATA / name).read_bytes() == (made / name).read_bytes()


def test_windows(made: Path) -> None:
    with np.load(DATA / "windows.npz") as committed, np.load(made / "windows.npz") as new:
        assert committed.files == new.files
        for name in new.files:
            np.testing.assert_array_equal(committed[name], new[name])
    assert (DATA / "windows.npz").stat().st_size < 150_000


def test_all_files_are_there(made: Path) -> None:
    assert sorted(path.name for path in made.iterdir()) == sorted([*NAMES, "windows.npz"])


@pytest.mark.parametrize("language", ["en", "de"])
def test_no_sentence_is_in_two_files(language: str) -> None:
    parts = [lines(f"{part}.{language}") for part in ("train", "validation", "test")]
    assert [*map(len, parts)] == [1500, 60, 60]
    every = [sentence for part in parts for sentence in part]
    assert len({*every}) == len(every)


def test_cells_of_the_spreadsheet_have_quotes_and_commas() -> None:
    assert lines("phrases.csv")[0] == "english,german"
    assert any(line.startswith('"""') for line in lines("phrases.csv"))
