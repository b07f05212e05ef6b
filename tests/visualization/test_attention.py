"""Attention maps, of one attention and of all of a model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras import ops
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from keras_transformer.visualization import plot_attention, plot_attention_maps

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


ENCODER, SELF, CROSS = (
    "encoder/layer_1/self_attention",
    "decoder/layer_1/self_attention",
    "decoder/layer_2/cross_attention",
)
READ, WRITTEN = ["[START]", "2", "0"], ["2", "0", "[END]"]
ALL_MAPS = {ENCODER: np.full((2, 4, 4), 0.2), SELF: np.full((2, 3, 3), 0.3), CROSS: np.full((2, 3, 4), 0.4)}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that would be written."""
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: figures.append(self))
    return figures


def axis_texts(figure: Figure) -> dict[str, Any]:
    """Return what stands at the axes of the first head's map."""
    axes = maps(figure)[0]
    return {
        "title": figure.get_suptitle(),
        "columns": [label.get_text().replace("␣", " ") for label in axes.get_xticklabels()],
        "rows": [label.get_text().replace("␣", " ") for label in axes.get_yticklabels()],
        "names": (axes.get_xlabel(), axes.get_ylabel()),
    }


def test_each_map_is_a_picture(tmp_path: Path) -> None:
    done: list[int] = []
    paths = plot_attention_maps(ALL_MAPS, SOURCE, READ, tmp_path / "new", progress=done.append)
    assert [path.name for path in paths] == [f"{name.replace('/', '_')}.png" for name in ALL_MAPS]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    assert sorted((tmp_path / "new").iterdir()) == sorted(paths)
    assert done == [1, 1, 1]


def test_the_name_of_a_map_chooses_the_tokens(drawn: list[Figure], tmp_path: Path) -> None:
    source = ["3", " ", "x", "[END]"]
    plot_attention_maps(ALL_MAPS, source, READ, tmp_path)
    names = ("source token", "target token, read")
    assert [axis_texts(figure) for figure in drawn] == [
        {
            "title": "Encoder, layer 1, self-attention",
            "columns": source,
            "rows": source,
            "names": (names[0], names[0]),
        },
        {
            "title": "Decoder, layer 1, self-attention",
            "columns": READ,
            "rows": READ,
            "names": (names[1], names[1]),
        },
        {"title": "Decoder, layer 2, cross-attention", "columns": source, "rows": READ, "names": names},
    ]
    values = [image(maps(figure)[1]) for figure in drawn]
    for found, scores in zip(values, ALL_MAPS.values(), strict=True):
        np.testing.assert_array_equal(found, scores[1].astype("float32"))


def test_what_is_written_labels_the_rows_of_the_decoder(drawn: list[Figure], tmp_path: Path) -> None:
    source = ["3", " ", "x", "[END]"]
    plot_attention_maps(ALL_MAPS, source, READ, tmp_path, output_tokens=WRITTEN)
    texts = [axis_texts(figure) for figure in drawn]
    assert [text["rows"] for text in texts] == [source, WRITTEN, WRITTEN]
    assert [text["columns"] for text in texts] == [source, READ, source]
    assert texts[1]["names"] == ("target token, read", "target token, written")


@pytest.mark.parametrize(
    "name", ["layer_1", "encoder/layer_1/cross_attention", "decoder/../self_attention", "x/y/self_attention"]
)
def test_unknown_names_of_maps_are_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"names such as .* Received: ") as caught:
        plot_attention_maps({name: ALL_MAPS[SELF]}, SOURCE, READ, tmp_path)
    assert str(caught.value).endswith(f"Received: {name!r}.")


@pytest.mark.parametrize("shape", [(2, 4, 3), (1, 2, 3, 4)])
def test_a_map_that_does_not_fit_is_named_and_nothing_is_written(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"for 3 target tokens and 4 source tokens") as caught:
        plot_attention_maps({**ALL_MAPS, CROSS: np.zeros(shape)}, SOURCE, READ, tmp_path)
    assert f"`scores['{CROSS}']` must have the shape" in str(caught.value)
    assert f"Received: scores of shape {shape}" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_output_tokens_must_fit(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Received: scores of shape \(2, 3, 3\) for 2 target tokens and 3"):
        plot_attention_maps({SELF: ALL_MAPS[SELF]}, SOURCE, READ, tmp_path, output_tokens=["a", "b"])
