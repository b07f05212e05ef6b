from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_transformer.errors import InputError
from keras_transformer.visualization import attention as attention_maps
from keras_transformer.visualization.attention import plot_attention_maps

SOURCE = ["3", "月", "שלום", "[END]", "x"]
READ = ["[START]", "2", "0"]
WRITTEN = ["2", "0", "[END]"]
ENCODER, SELF, CROSS = (
    "encoder/layer_1/self_attention",
    "decoder/layer_1/self_attention",
    "decoder/layer_2/cross_attention",
)
SCORES = {ENCODER: np.full((2, 5, 5), 0.2), SELF: np.full((2, 3, 3), 0.3), CROSS: np.full((2, 3, 5), 0.2)}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is handed to `plot_attention`, which draws nothing."""
    calls: list[dict[str, Any]] = []

    def record(scores: Any, columns: Any, rows: Any, **options: Any) -> None:
        calls.append({"scores": scores, "columns": columns, "rows": rows, **options})

    monkeypatch.setattr(attention_maps, "plot_attention", record)
    return calls


def test_each_map_is_a_picture(tmp_path: Path) -> None:
    done: list[int] = []
    paths = plot_attention_maps(SCORES, SOURCE, READ, tmp_path / "new", progress=done.append)
    assert [path.name for path in paths] == [f"{name.replace('/', '_')}.png" for name in SCORES]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    assert sorted((tmp_path / "new").iterdir()) == sorted(paths)
    assert done == [1, 1, 1]


def test_the_name_chooses_the_tokens(drawn: list[dict[str, Any]], tmp_path: Path) -> None:
    plot_attention_maps(SCORES, SOURCE, READ, tmp_path)
    assert [(call["columns"], call["rows"]) for call in drawn] == [
        (SOURCE, SOURCE),
        (READ, READ),
        (SOURCE, READ),
    ]
    assert [call["title"] for call in drawn] == [
        "Encoder, layer 1, self-attention",
        "Decoder, layer 1, self-attention",
        "Decoder, layer 2, cross-attention",
    ]
    source, read = "source token", "target token, read"
    names = [(call["source_label"], call["target_label"]) for call in drawn]
    assert names == [(source, source), (read, read), (source, read)]
    assert all(call["scores"] is values for call, values in zip(drawn, SCORES.values(), strict=True))


def test_what_is_written_labels_the_rows_of_the_decoder(drawn: list[dict[str, Any]], tmp_path: Path) -> None:
    plot_attention_maps(SCORES, SOURCE, READ, tmp_path, output_tokens=WRITTEN)
    assert [call["rows"] for call in drawn] == [SOURCE, WRITTEN, WRITTEN]
    assert [call["columns"] for call in drawn] == [SOURCE, READ, SOURCE]
    assert drawn[1]["target_label"] == "target token, written"


@pytest.mark.parametrize(
    "name", ["layer_1", "encoder/layer_1/cross_attention", "decoder/../self_attention", "x/y/self_attention"]
)
def test_unknown_names_are_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"names such as .* Received: ") as caught:
        plot_attention_maps({name: SCORES[SELF]}, SOURCE, READ, tmp_path)
    assert str(caught.value).endswith(f"Received: {name!r}.")


@pytest.mark.parametrize("shape", [(2, 5, 3), (1, 2, 3, 5)])
def test_a_map_that_does_not_fit_is_named_and_nothing_is_written(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"for 3 target tokens and 5 source tokens") as caught:
        plot_attention_maps({**SCORES, CROSS: np.zeros(shape)}, SOURCE, READ, tmp_path)
    assert f"`scores['{CROSS}']` must have the shape" in str(caught.value)
    assert f"Received: scores of shape {shape}" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_output_tokens_must_fit(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`output_tokens` .* Received: 2 output tokens, 3 target tokens\."):
        plot_attention_maps(SCORES, SOURCE, READ, tmp_path, output_tokens=["a", "b"])


def test_a_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(InputError, match=r"Cannot write .*file/decoder_layer_1_self_attention\.png"):
        plot_attention_maps({SELF: SCORES[SELF]}, SOURCE, READ, tmp_path / "file")
