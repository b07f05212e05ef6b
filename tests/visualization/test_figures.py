"""What all pictures share: labels in any script, files and their formats."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from keras_transformer.errors import InputError
from keras_transformer.visualization import plot_mask, plot_training

NO_FONT = "\U00012000"  # cuneiform, which fonts on a desktop lack
HISTORY = {"loss": [2.0, 1.0]}


def labels(tokens: Sequence[str]) -> list[Text]:
    """Return the labels of the columns of a mask."""
    [axes] = plot_mask(np.ones((1, len(tokens))), key_tokens=tokens).axes
    return axes.get_xticklabels()


@pytest.mark.parametrize(
    ("token", "label"),
    [
        ("a", "a"),
        ("", ""),
        (" ", "␣"),
        ("a b", "a␣b"),
        ("▁Hund", "▁Hund"),
        ("\n", "U+000A"),
        ("\u200f", "U+200F"),
        ("a\u200db", "a\u200db"),
        ("\u0301", "\N{DOTTED CIRCLE}\u0301"),
        ("\ud800", "U+D800"),
        ("$x$", "$x$"),
        ("x" * 16, "x" * 16),
        ("x" * 100, "x" * 16 + "…"),
    ],
)
def test_every_token_can_be_seen(token: str, label: str) -> None:
    assert [text.get_text() for text in labels([token])] == [label]


def test_characters_without_a_font_become_code_points() -> None:
    [label] = labels([f"a{NO_FONT}b"])
    if NO_FONT in label.get_text():
        pytest.skip("a font of this machine has cuneiform")
    assert label.get_text() == "aU+12000b"


def test_the_default_family_is_first_and_enough_for_latin() -> None:
    latin, other = labels(["Hund", "月"])
    assert latin.get_fontfamily() == ["DejaVu Sans"]
    assert other.get_fontfamily()[0] == "DejaVu Sans"


@pytest.mark.parametrize("text", ["$", "$a$", r"\frac{", "月 يوم शु ภ 월 😀", NO_FONT])
def test_any_text_is_drawn_without_a_warning(text: str) -> None:
    plot_training(HISTORY, title=text).savefig(io.BytesIO())  # a warning is an error


def test_labels_stand_at_their_positions_and_long_ones_are_turned() -> None:
    texts = labels(["a", "[END]", "$"])
    assert [text.get_position()[0] for text in texts] == [0, 1, 2]
    assert [text.get_text() for text in texts] == ["a", "[END]", "$"]
    assert [text.get_rotation() for text in texts] == [0, 90, 0]


def test_many_labels_are_thinned_out() -> None:
    texts = labels([str(position) for position in range(240)])
    assert [text.get_text() for text in texts][:3] == ["0", "3", "6"]
    assert len(texts) == 80


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("b.PDF", b"%PDF"), ("c.svg", b"<?xml")])
def test_the_suffix_names_the_format(tmp_path: Path, name: str, start: bytes) -> None:
    path = tmp_path / "new" / name
    plot_training(HISTORY, path=str(path))
    assert path.read_bytes().startswith(start)
    assert [entry.name for entry in path.parent.iterdir()] == [name]


@pytest.mark.parametrize("name", ["picture", "picture.xyz"])
def test_unknown_formats_are_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=rf"one of .*\.png.* Received: .*{name}\.$"):
        plot_training(HISTORY, path=tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(InputError, match=r"Cannot write .*file/a\.png: "):
        plot_training(HISTORY, path=tmp_path / "file" / "a.png")


def test_a_picture_that_cannot_be_finished_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.png"
    path.write_text("old")

    def fail(figure: Figure, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(OSError, match="No space left on device"):
        plot_training(HISTORY, path=path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.png"]
