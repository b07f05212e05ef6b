"""The pictures that are asked for are written, and their paths printed."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from keras_transformer import visualization

MAPS = [
    "encoder_layer_1_self_attention.png",
    "decoder_layer_1_self_attention.png",
    "decoder_layer_1_cross_attention.png",
]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple]:
    """What is handed to the functions that draw, which draw it all the same."""
    calls: dict[str, tuple] = {}

    def watch(name: str) -> None:
        draw = getattr(visualization, name)

        def record(*values: object, **options: object) -> object:
            calls[name] = (values, options)
            return draw(*values, **options)

        monkeypatch.setattr(visualization, name, record)

    for name in ("plot_attention_maps", "plot_position_encoding", "plot_mask"):
        watch(name)
    return calls


def test_every_attention_map_of_the_answer(command: Callable, trained: Path, drawn: dict[str, tuple]) -> None:
    result = command("plot", "attention", "--model", trained / "runs/tiny", "w1ab")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [str(Path("attention", name)) for name in MAPS]
    assert sorted(path.name for path in Path("attention").iterdir()) == sorted(MAPS)
    assert all(Path("attention", name).read_bytes().startswith(b"\x89PNG") for name in MAPS)
    (_, source, target, _), options = drawn["plot_attention_maps"]
    assert list(source) == ["w", "1", "a", "b", "[END]"]
    assert target == ["[START]", *options["output_tokens"][:-1]]


@pytest.mark.slow
def test_an_export_has_one_map(command: Callable, trained: Path) -> None:
    result = command("plot", "attention", "--saved-model", trained / "saved_models/tiny", "w1ab")
    assert (result.exit_code, result.stdout) == (0, "attention/cross_attention.png\n"), result.output
    assert Path("attention/cross_attention.png").read_bytes().startswith(b"\x89PNG")
    result = command("plot", "attention", "--saved-model", trained / "saved_models/tiny", "\u200b")
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert "Give a text that is not empty." in result.stderr


@pytest.mark.slow
def test_hard_texts_are_drawn(command: Callable, trained: Path) -> None:
    result = command(
        "plot", "attention", "--model", trained / "runs/tiny", "--output", "a/b", "月\udcffשל" + "x" * 9
    )
    assert result.exit_code == 0, result.output
    assert len(list(Path("a/b").iterdir())) == len(MAPS)


def test_positions(command: Callable, drawn: dict[str, tuple]) -> None:
    result = command("plot", "positions", "--hidden-dim", 6, "--length", 5, "--output", "new/p.png")
    assert (result.exit_code, result.stdout) == (0, "new/p.png\n")
    assert Path("new/p.png").read_bytes().startswith(b"\x89PNG")
    [encoding] = drawn["plot_position_encoding"][0]
    assert tuple(encoding.shape) == (5, 6)
    np.testing.assert_allclose(encoding[:, 0], np.sin(np.arange(5)), atol=1e-6)


def test_mask(command: Callable, drawn: dict[str, tuple]) -> None:
    result = command("plot", "mask", "--length", 3)
    assert (result.exit_code, result.stdout) == (0, "mask.png\n")
    assert Path("mask.png").read_bytes().startswith(b"\x89PNG")
    np.testing.assert_array_equal(drawn["plot_mask"][0][0], [[1, 0, 0], [1, 1, 0], [1, 1, 1]])


def test_mask_with_padding(command: Callable, drawn: dict[str, tuple]) -> None:
    assert command("plot", "mask", "--length", 3, "--padding", 1).exit_code == 0
    np.testing.assert_array_equal(drawn["plot_mask"][0][0], [[1, 0, 0], [1, 1, 0], [1, 1, 0]])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["attention", "--model", "none", "text"], "none is not the directory of a model"),
        (["attention", "--model", "none", ""], "Give a text that is not empty. Received: ''."),
        (["attention", "--model", "none", " "], "Give a text that is not empty. Received: ' '."),
        (["attention", "text"], "Name a model with --model or --saved-model. Found in saved_models: none."),
        (["positions", "--output", "p.xyz"], "Received: p.xyz."),
        (["positions", "--length", "0"], "0 is not in the range 1<=x<=4096"),
        (["mask", "--length", "3", "--padding", "3"], "--padding must be below --length. Received: 3 of 3."),
        (["mask", "--length", "513"], "513 is not in the range 1<=x<=512"),
    ],
)
def test_mistakes(command: Callable, words: list[str], expected: str) -> None:
    result = command("plot", *words)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert expected in result.stderr.splitlines()[-1]
    assert result.stdout == ""
    assert list(Path().iterdir()) == []


def test_a_place_that_cannot_be_written(command: Callable) -> None:
    Path("file").write_text("not a directory")
    result = command("plot", "mask", "--output", "file/mask.png")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: Cannot write file/mask.png: ")
    assert result.stderr.count("\n") == 1
