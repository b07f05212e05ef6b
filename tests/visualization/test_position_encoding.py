from pathlib import Path

import numpy as np
import pytest
from keras import ops

from keras_transformer.visualization import plot_position_encoding

ENCODING = np.linspace(-0.5, 2.0, 5 * 16, dtype="float32").reshape(5, 16)


def test_the_map_has_a_column_for_each_position() -> None:
    heat, curves, _, bar, _ = plot_position_encoding(ENCODING).axes
    [image] = heat.get_images()
    np.testing.assert_array_equal(np.asarray(image.get_array()), ENCODING.T)
    assert image.get_clim() == (-2.0, 2.0)  # 0 is in the middle, which is white
    assert image.get_cmap().name == "RdBu_r"
    assert (heat.get_xlabel(), heat.get_ylabel()) == ("position", "column of the encoding")
    assert (curves.get_xlabel(), curves.get_ylabel()) == ("position", "value")
    assert bar.get_ylabel() == "value"


def test_positions_are_compared_by_their_dot_products() -> None:
    _, _, similarity, _, bar = plot_position_encoding(ENCODING).axes
    [image] = similarity.get_images()
    np.testing.assert_allclose(np.asarray(image.get_array()), ENCODING @ ENCODING.T, rtol=1e-6)
    assert (similarity.get_xlabel(), similarity.get_ylabel()) == ("position", "position")
    assert bar.get_ylabel() == "dot product"


def test_four_columns_are_drawn_as_curves() -> None:
    figure = plot_position_encoding(ops.convert_to_tensor(ENCODING))
    lines = figure.axes[1].get_lines()
    assert [line.get_label() for line in lines] == ["column 0", "column 2", "column 4", "column 8"]
    for line, column in zip(lines, (0, 2, 4, 8), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), np.arange(5))
        np.testing.assert_array_equal(line.get_ydata(), ENCODING[:, column])
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [line.get_label() for line in lines]


@pytest.mark.parametrize(("length", "marker"), [(1, "o"), (100, "o"), (101, "None")])
def test_few_positions_are_points(length: int, marker: str) -> None:
    [line] = plot_position_encoding(np.zeros((length, 1))).axes[1].get_lines()
    assert line.get_marker().replace("None", "") == marker.replace("None", "")


def test_the_picture_is_written(tmp_path: Path) -> None:
    figure = plot_position_encoding(ENCODING, path=tmp_path / "positions.png", title="$ positions")
    assert figure.get_suptitle() == "$ positions"
    assert (tmp_path / "positions.png").read_bytes().startswith(b"\x89PNG")
    assert [entry.name for entry in tmp_path.iterdir()] == ["positions.png"]


def test_zeros_have_a_scale() -> None:
    heat = plot_position_encoding(np.zeros((2, 3))).axes[0]
    assert heat.get_images()[0].get_clim() == (-1.0, 1.0)


@pytest.mark.parametrize("shape", [(3,), (1, 2, 3), (0, 3), (3, 0)])
def test_wrong_shapes_are_named(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"`encoding` must have the shape \(positions, width\)") as caught:
        plot_position_encoding(np.zeros(shape))
    assert str(caught.value).endswith(f"Received: encoding of shape {shape}.")


def test_numbers_that_are_not_finite_are_counted() -> None:
    with pytest.raises(ValueError, match=r"`encoding` must be finite\. Received: 2 NaN or inf\."):
        plot_position_encoding([[np.nan, 1.0, -np.inf]])
