from pathlib import Path

import pytest
from matplotlib.figure import Figure

from keras_transformer.errors import InputError
from keras_transformer.visualization.token_labels import save_figure


@pytest.fixture
def figure() -> Figure:
    figure = Figure((2, 1))
    figure.subplots().plot([1, 2])
    return figure


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("b.PDF", b"%PDF"), ("c.svg", b"<?xml")])
def test_the_suffix_names_the_format(figure: Figure, tmp_path: Path, name: str, start: bytes) -> None:
    path = save_figure(figure, str(tmp_path / name))
    assert path == tmp_path / name
    assert path.read_bytes().startswith(start)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_an_old_picture_is_replaced(figure: Figure, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_text("old")
    assert save_figure(figure, path).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["picture", "picture.xyz"])
def test_unknown_formats_are_named(figure: Figure, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=rf"one of .*\.png.* Received: .*{name}\.$"):
        save_figure(figure, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_is_created(figure: Figure, tmp_path: Path) -> None:
    assert save_figure(figure, tmp_path / "new" / "a.png").exists()


def test_a_place_that_cannot_be_written_is_named(figure: Figure, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(InputError, match=r"Cannot write .*file/a\.png: "):
        save_figure(figure, tmp_path / "file" / "a.png")


def test_a_picture_that_cannot_be_finished_leaves_the_old_one(
    figure: Figure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.png"
    path.write_text("old")

    def fill_the_disk(beside: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill_the_disk)
    with pytest.raises(InputError, match=r"a\.png: No space left on device"):
        save_figure(figure, path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.png"]
