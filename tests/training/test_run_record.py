"""The table and the picture of a run."""

from pathlib import Path

from keras_transformer.training import Checkpoint, CheckpointState, RunRecord


def record(directory: Path, history: dict[str, list[float]]) -> str:
    checkpoint = Checkpoint(directory / "checkpoints", state=CheckpointState(history=history))
    RunRecord(checkpoint, directory).on_epoch_end(0)
    return (directory / "training.csv").read_text(encoding="utf-8")


def test_a_row_for_each_epoch(tmp_path: Path) -> None:
    table = record(tmp_path, {"loss": [3.5, 2.25], "val_loss": [0.1, 1e-9]})
    assert table == "epoch,loss,val_loss\n1,3.5,0.1\n2,2.25,1e-09\n"
    assert (tmp_path / "training.png").read_bytes().startswith(b"\x89PNG")


def test_what_an_epoch_did_not_measure_is_empty(tmp_path: Path) -> None:
    table = record(tmp_path, {"loss": [3.0, 2.0], "val_bleu": [7.0, float("nan")]})
    assert table == "epoch,loss,val_bleu\n1,3.0,7.0\n2,2.0,\n"


def test_a_number_that_came_later_is_of_the_last_epochs(tmp_path: Path) -> None:
    assert (
        record(tmp_path, {"loss": [3.0, 2.0], "val_bleu": [7.0]})
        == "epoch,loss,val_bleu\n1,3.0,\n2,2.0,7.0\n"
    )
