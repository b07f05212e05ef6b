import logging

import pytest
from matplotlib.figure import Figure

from keras_transformer.visualization.token_labels import (
    MAX_LABEL_LENGTH,
    MAX_NUM_LABELS,
    drawable,
    font_families,
    label_inches,
    set_token_labels,
    show_any_script,
    token_label,
)

NO_FONT = "\U00012000"  # cuneiform, which fonts on a desktop lack


@pytest.mark.parametrize(
    ("token", "label"),
    [
        ("a", "a"),
        ("", ""),
        (" ", "␣"),
        ("▁Hund", "▁Hund"),
        ("\n", "U+000A"),
        ("\u200f", "U+200F"),
        ("\u0301", "\N{DOTTED CIRCLE}\u0301"),
        ("\ud800", "U+D800"),
        ("$x$", "$x$"),
    ],
)
def test_every_token_can_be_seen(token: str, label: str) -> None:
    assert token_label(token) == label


def test_characters_without_a_font_become_code_points() -> None:
    if drawable(NO_FONT) == NO_FONT:
        pytest.skip("a font of this machine has cuneiform")
    assert token_label(f"a{NO_FONT}b") == "aU+12000b"


def test_long_labels_are_cut() -> None:
    assert token_label("x" * MAX_LABEL_LENGTH) == "x" * MAX_LABEL_LENGTH
    assert token_label("x" * 100) == "x" * MAX_LABEL_LENGTH + "…"


def test_direction_marks_stay_inside_words() -> None:
    assert drawable("a\u200db") == "a\u200db"


def test_the_default_family_is_first_and_enough_for_latin() -> None:
    assert font_families("Hund") == ["DejaVu Sans"]
    assert font_families("月")[0] == "DejaVu Sans"


@pytest.mark.parametrize("text", ["$", "$a$", r"\frac{", "月 يوم शु ภ 월 😀", NO_FONT])
def test_any_text_is_drawn_without_a_warning(text: str, caplog: pytest.LogCaptureFixture) -> None:
    figure = Figure((2, 1))
    with caplog.at_level(logging.WARNING):
        show_any_script(figure.suptitle(text))
        figure.canvas.draw()
    assert caplog.records == []


def test_labels_stand_at_their_positions_and_long_ones_are_turned() -> None:
    axes = Figure().subplots()
    set_token_labels(axes.xaxis, ["a", "[END]", "$"], rotation=90)
    labels = axes.get_xticklabels()
    assert list(axes.get_xticks()) == [0, 1, 2]
    assert [label.get_text() for label in labels] == ["a", "[END]", "$"]
    assert [label.get_rotation() for label in labels] == [0, 90, 0]


def test_many_labels_are_thinned_out() -> None:
    axes = Figure().subplots()
    set_token_labels(axes.yaxis, [str(position) for position in range(3 * MAX_NUM_LABELS)])
    assert [label.get_text() for label in axes.get_yticklabels()][:3] == ["0", "3", "6"]
    assert len(axes.get_yticks()) == MAX_NUM_LABELS


def test_room_for_the_longest_label() -> None:
    assert label_inches([]) == 0
    assert label_inches(["a", "[END]"]) == pytest.approx(0.5)
    assert label_inches(["x" * 100]) == label_inches(["x" * 20])
