"""Masks as pictures."""

from pathlib import Path

import numpy as np
import pytest
from keras import ops
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from keras_transformer.visualization import plot_mask

ALLOWED_COLOR, BLOCKED_COLOR = "#fde725", "#440154"

MASK = np.array([[1, 0, 0], [1, 1, 0]], dtype=bool)


def colors(figure: Figure) -> list[list[str]]:
    """Return the color of each cell."""
    [image] = figure.axes[0].get_images()
    cells = image.to_rgba(image.get_array(), bytes=False)
    return [[to_hex(cell) for cell in row] for row in np.asarray(cells)]


@pytest.mark.parametrize("mask", [MASK, MASK.astype("int32"), MASK.astype("float32"), MASK.tolist()])
def test_true_has_the_color_of_what_may_be_attended_to(mask: object) -> None:
    figure = plot_mask(ops.convert_to_tensor(mask))
    yes, no = ALLOWED_COLOR, BLOCKED_COLOR
    assert colors(figure) == [[yes, no, no], [yes, yes, no]]


def test_the_legend_says_what_the_colors_mean() -> None:
    [legend] = plot_mask(MASK).legends
    meaning = {
        text.get_text(): to_hex(patch.get_facecolor())
        for text, patch in zip(legend.get_texts(), legend.get_patches(), strict=True)
    }
    assert meaning == {"may be attended to": ALLOWED_COLOR, "may not": BLOCKED_COLOR}


@pytest.mark.parametrize(("mask", "color"), [([[True]], ALLOWED_COLOR), ([[False]], BLOCKED_COLOR)])
def test_one_color_alone_is_the_right_one(mask: list[list[bool]], color: str) -> None:
    assert colors(plot_mask(mask)) == [[color]]


def test_lines_stand_between_the_cells() -> None:
    [axes] = plot_mask(MASK).axes
    starts = [segment[0].tolist() for lines in axes.collections for segment in lines.get_segments()]
    assert starts == [[0.5, -0.5], [1.5, -0.5], [-0.5, 0.5]]


def test_rows_are_queries_and_columns_are_keys() -> None:
    [axes] = plot_mask(MASK, query_tokens=["a", "$"], key_tokens=["[START]", " ", "b"]).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("key", "query")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "$"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["[START]", "␣", "b"]
    assert axes.yaxis_inverted()  # the first query is on top


def test_positions_without_tokens_are_whole_numbers() -> None:
    [axes] = plot_mask(MASK, query_label="sequence", title="Padding").axes
    assert axes.get_ylabel() == "sequence"
    assert all(tick == int(tick) for tick in [*axes.get_xticks(), *axes.get_yticks()])


def test_the_picture_is_written(tmp_path: Path) -> None:
    figure = plot_mask(MASK, path=tmp_path / "mask.png", title="$ 1")
    assert figure.get_suptitle() == "$ 1"
    assert (tmp_path / "mask.png").read_bytes().startswith(b"\x89PNG")
    assert [entry.name for entry in tmp_path.iterdir()] == ["mask.png"]


def test_long_labels_have_room_and_long_masks_stay_within_reason() -> None:
    short, long = (plot_mask(MASK, key_tokens=["x" * n] * 3).get_size_inches() for n in (1, 16))
    assert long[1] >= short[1] + 1
    assert max(plot_mask(np.ones((1000, 1000))).get_size_inches()) <= 26


@pytest.mark.parametrize("shape", [(3,), (1, 2, 3), (0, 3)])
def test_wrong_shapes_are_named(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"`mask` must have the shape \(queries, keys\)") as caught:
        plot_mask(np.ones(shape))
    assert str(caught.value).endswith(f"Received: mask of shape {shape}.")


def test_a_mask_to_be_added_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must hold True and False, or 1 and 0\. Received: -1000000000\.0"):
        plot_mask([[0.0, -1e9]])


@pytest.mark.parametrize(
    ("tokens", "received"),
    [
        ({"query_tokens": ["a"]}, "`query_tokens` .* each row .* Received: 1 tokens for 2 rows"),
        ({"key_tokens": ["a"] * 4}, "`key_tokens` .* each column .* Received: 4 tokens for 3 columns"),
    ],
)
def test_tokens_must_fit(tokens: dict[str, list[str]], received: str) -> None:
    with pytest.raises(ValueError, match=received):
        plot_mask(MASK, **tokens)
