from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

from keras_transformer.visualization import plot_training

HISTORY = {
    "loss": [3.0, 2.0, 1.5],
    "accuracy": [0.1, 0.5, 0.7],
    "val_loss": [2.5, 2.0, 1.9],
    "val_accuracy": [0.2, 0.4, 0.6],
    "learning_rate": [1e-4, 2e-4, 1e-4],
}


def curves(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """Return the curves of a panel by their label."""
    return {
        str(line.get_label()): (list(np.asarray(line.get_xdata())), list(np.asarray(line.get_ydata())))
        for line in axes.get_lines()
    }


def test_a_metric_and_its_validation_share_a_panel() -> None:
    figure = plot_training(HISTORY)
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss", "accuracy", "learning rate"]
    assert {axes.get_xlabel() for axes in figure.axes} == {"epoch"}
    assert curves(figure.axes[0]) == {
        "training": ([1, 2, 3], HISTORY["loss"]),
        "validation": ([1, 2, 3], HISTORY["val_loss"]),
    }
    assert list(curves(figure.axes[2])) == ["training"]


def test_a_validation_without_its_metric_has_a_panel() -> None:
    [axes] = plot_training({"val_bleu": [10.0, 20.0]}).axes
    assert (axes.get_ylabel(), list(curves(axes))) == ("bleu", ["validation"])


def test_values_of_some_epochs_are_drawn_there() -> None:
    history = {"loss": [5.0, 4.0, 3.0, 2.0, 1.0], "val_loss": [4.5, 2.5], "bleu": []}
    [axes] = plot_training(history, validation_freq=2).axes
    assert curves(axes) == {
        "training": ([1, 2, 3, 4, 5], history["loss"]),
        "validation": ([2, 4], history["val_loss"]),
    }
    [axes] = plot_training({"val_bleu": [10.0, 20.0]}, validation_freq=3).axes
    assert curves(axes) == {"validation": ([3, 6], [10.0, 20.0])}


@pytest.mark.parametrize("validation_freq", [1, 3])
def test_values_of_unknown_epochs_are_refused(validation_freq: int) -> None:
    history = {"loss": [5.0, 4.0, 3.0, 2.0, 1.0], "val_loss": [4.5, 2.5]}
    message = rf"2 values of val_loss in 5 epochs, validation_freq={validation_freq}"
    with pytest.raises(ValueError, match=message):
        plot_training(history, validation_freq=validation_freq)


def test_one_epoch_can_be_seen() -> None:
    [axes] = plot_training({"loss": [3.0]}).axes
    assert axes.get_lines()[0].get_marker() == "o"
    assert 1.0 in axes.get_xticks()
    assert all(tick == int(tick) for tick in axes.get_xticks())


def test_empty_places_of_the_grid_are_removed() -> None:
    history = {f"metric_{number}": [1.0, float("nan")] for number in range(4)}
    assert len(plot_training(history).axes) == 4


def test_the_picture_is_written(tmp_path: Path) -> None:
    plot_training(HISTORY, path=tmp_path / "training.png", title="$ dates")
    assert (tmp_path / "training.png").read_bytes().startswith(b"\x89PNG")
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(("history", "received"), [({}, r"\{\}"), ({"loss": []}, r"\{'loss': \[\]\}")])
def test_an_empty_history_is_named(history: dict[str, list[float]], received: str) -> None:
    with pytest.raises(ValueError, match=f"`history` must have values .* Received: {received}"):
        plot_training(history)
