"""What a new run replaces: set aside, and then put back or removed."""

import shutil
from pathlib import Path

from keras_transformer.cli.run_fingerprint import PAIRS_FILE
from keras_transformer.cli.run_report import REPORT_FILE
from keras_transformer.decoding.translator_files import MODEL_FILE
from keras_transformer.decoding.translator_files import OPTIONS_FILE as TRANSLATOR_FILE
from keras_transformer.training.checkpoint_state import STATE_FILE
from keras_transformer.training.finite_loss import BATCH_FILE
from keras_transformer.training.fitting import TENSORBOARD
from keras_transformer.training.run_record import PICTURE, TABLE

CONFIG_FILE = "config.json"

OF_A_TRANSLATOR = ("source_tokenizer", "target_tokenizer", MODEL_FILE, TRANSLATOR_FILE)
"""What a run reads again, or writes over at its end."""
WITHOUT_A_CHECKPOINT = (
    CONFIG_FILE,
    PAIRS_FILE,
    "checkpoints",
    "source_tokenizer",
    "target_tokenizer",
    TENSORBOARD,
    BATCH_FILE,
)
"""What may be there before the first checkpoint is."""
OF_A_RUN = (*WITHOUT_A_CHECKPOINT, *OF_A_TRANSLATOR, REPORT_FILE, TABLE, PICTURE, "attention.png")
"""All that a run writes; the rest of its directory is somebody else's, such as the texts to train on."""


def set_aside(directory: Path) -> None:
    """Set aside what an earlier run has left; the rest stays. Call `settle` later.

    Args:
        directory: of the run, no link.
    """
    directory.rename(_aside(directory))
    _move_others(_aside(directory), directory)


def settle(directory: Path) -> None:
    """Remove what a new run has replaced, or put it back where the new one has saved nothing.

    Args:
        directory: of the run.
    """
    directory = directory.resolve()
    aside = _aside(directory)
    if not aside.exists():
        return
    if (directory / "checkpoints" / STATE_FILE).exists():
        _move_others(aside, directory)  # a process may have been killed before it did
        shutil.rmtree(aside)
        return
    if (directory / BATCH_FILE).exists():  # of which the user has just been told
        (directory / BATCH_FILE).replace(aside / BATCH_FILE)
    _move_others(directory, aside)
    shutil.rmtree(directory, ignore_errors=True)
    aside.rename(directory)


def _aside(directory: Path) -> Path:
    return directory.with_name(f".replaced-{directory.name}")


def _move_others(origin: Path, target: Path) -> None:
    """Move what no run has written."""
    others = [path for path in origin.iterdir() if path.name not in OF_A_RUN] if origin.exists() else []
    for path in others:
        target.mkdir(exist_ok=True)
        path.rename(target / path.name)
