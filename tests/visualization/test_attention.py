from pathlib import Path

import numpy as np
import pytest
from keras import ops
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from keras_transformer.errors import InputError
from keras_transformer.visualization.attention import plot_attention

SOURCE = ["3", " ", "月", "[END]"]
TARGET = ["2", "$", "[END]"]
SCORES = np.linspace(0, 1, 24, dtype="float32").reshape(2, 3, 4)


def maps(figure: Figure) -> list[Axes]:
    """Return the panels that hold a map, without the color bar."""
    return [axes for axes in figure.axes if axes.get_xlabel()]


def image(axes: Axes) -> np.ndarray:
    """Return the numbers that a panel shows."""
    return np.asarray(axes.get_images()[0].get_array())


def test_rows_are_target_and_columns_are_source() -> None:
    [axes] = maps(plot_attention(SCORES[0], SOURCE, TARGET))
    np.testing.assert_array_equal(image(axes), SCORES[0])
    assert [label.get_text() for label in axes.get_yticklabels()] == TARGET
    assert [label.get_text() for label in axes.get_xticklabels()][:2] == ["3", "␣"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("source token", "target token")
    assert axes.yaxis_inverted()  # the first target token is on top


def test_each_head_has_a_panel_with_the_same_scale() -> None:
    panels = maps(plot_attention(SCORES, SOURCE, TARGET))
    assert [axes.get_title() for axes in panels] == ["head 1", "head 2"]
    for head, axes in enumerate(panels):
        np.testing.assert_array_equal(image(axes), SCORES[head])
        assert axes.get_images()[0].get_clim() == (0.0, 1.0)


def test_empty_places_of_the_grid_are_removed() -> None:
    assert len(maps(plot_attention(np.ones((5, 3, 4)), SOURCE, TARGET))) == 5


def test_axes_and_title_can_be_named() -> None:
    figure = plot_attention(
        SCORES[0], SOURCE, TARGET, title="$ 月", source_label="English", target_label="Deutsch"
    )
    [axes] = maps(figure)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("English", "Deutsch")
    assert figure.get_suptitle().startswith("$ ")


def test_tensors_of_the_backend_are_drawn() -> None:
    [axes] = maps(plot_attention(ops.convert_to_tensor(SCORES[1]), SOURCE, TARGET))
    np.testing.assert_array_equal(image(axes), SCORES[1])


@pytest.mark.parametrize("scores", [np.zeros((3, 4)), np.full((2, 3, 4), 0.25)])
def test_constant_scores_have_a_scale(scores: np.ndarray, tmp_path: Path) -> None:
    plot_attention(scores, SOURCE, TARGET, path=tmp_path / "attention.png")


def test_the_picture_is_written_and_has_colors(tmp_path: Path) -> None:
    path = tmp_path / "attention.png"
    plot_attention(SCORES, SOURCE, TARGET, path=path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [entry.name for entry in tmp_path.iterdir()] == ["attention.png"]


def test_long_texts_keep_the_picture_within_reason() -> None:
    figure = plot_attention(np.ones((4, 3, 100)), ["a"] * 100, TARGET)
    assert max(figure.get_size_inches()) <= 48


def test_long_labels_have_room() -> None:
    short, long = (plot_attention(SCORES[0], ["x" * n] * 4, TARGET).get_size_inches() for n in (1, 16))
    assert long[1] >= short[1] + 1


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3), (3,), (1, 2, 3, 4), (3, 5), (0, 3, 4)])
def test_wrong_shapes_are_named(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"Received: scores of shape .* for 3 target tokens and 4") as caught:
        plot_attention(np.zeros(shape), SOURCE, TARGET)
    assert str(shape) in str(caught.value)


def test_scores_that_are_not_numbers_are_counted() -> None:
    scores = SCORES[0].copy()
    scores[0, :2] = (np.nan, np.inf)
    with pytest.raises(ValueError, match=r"must be finite\. Received: 2 NaN or inf"):
        plot_attention(scores, SOURCE, TARGET)


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(InputError, match=r"Cannot write .*file/attention\.png"):
        plot_attention(SCORES[0], SOURCE, TARGET, path=tmp_path / "file" / "attention.png")
