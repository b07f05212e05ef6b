"""When a run stops."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from keras_transformer.training import Checkpoint, CheckpointState, StopEarly
from keras_transformer.training.checkpoints import is_over


@pytest.mark.parametrize(
    ("epoch", "best_epoch", "patience", "over"),
    [(0, 0, 1, False), (3, 3, 1, False), (4, 3, 1, True), (4, 3, 2, False), (9, 3, None, False)],
)
def test_a_run_is_over_when_the_best_epoch_is_old(
    epoch: int, best_epoch: int, patience: int | None, over: bool
) -> None:
    assert is_over(CheckpointState(epoch=epoch, best_epoch=best_epoch), patience) == over


@pytest.mark.parametrize(("epoch", "stopped"), [(4, False), (5, True)])
def test_the_model_is_told(tmp_path: Path, epoch: int, stopped: bool) -> None:
    checkpoint = Checkpoint(tmp_path, state=CheckpointState(epoch=epoch, best_epoch=2))
    callback, model = StopEarly(checkpoint, 3), SimpleNamespace(stop_training=False)
    callback.set_model(model)
    callback.on_epoch_end(epoch - 1)
    assert model.stop_training == stopped


def test_patience_must_be_above_zero(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`patience` must be above zero\. Received: patience=0\."):
        StopEarly(Checkpoint(tmp_path), 0)
