"""A run that goes on has the pairs that it began with."""

from pathlib import Path

import pytest

from keras_transformer.errors import InputError
from keras_transformer.runs.data import RunPairs
from keras_transformer.runs.directory import PAIRS_FILE, note_pairs

TRAIN, VALIDATION = [("a", "b"), ("c", "d")], [("e", "f")]
PAIRS = RunPairs(train=TRAIN, validation=VALIDATION, test=VALIDATION)


def test_the_same_pairs_go_on(tmp_path: Path) -> None:
    note_pairs(PAIRS, tmp_path)
    before = (tmp_path / PAIRS_FILE).read_bytes()
    note_pairs(RunPairs(train=TRAIN, validation=VALIDATION, test=TRAIN), tmp_path)
    assert (tmp_path / PAIRS_FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("train", "validation", "changed"),
    [
        (TRAIN[::-1], VALIDATION, "train"),
        (TRAIN, TRAIN, "validation"),
        ([*TRAIN, ("g", "h")], [("e", "F")], "train and validation"),
        ([("ab", ""), ("c", "d")], VALIDATION, "train"),
    ],
)
def test_others_do_not(
    train: list[tuple[str, str]], validation: list[tuple[str, str]], changed: str, tmp_path: Path
) -> None:
    note_pairs(PAIRS, tmp_path)
    with pytest.raises(InputError, match=rf"Received: other {changed} pairs than those of .*{PAIRS_FILE}"):
        note_pairs(RunPairs(train=train, validation=validation, test=[]), tmp_path)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / PAIRS_FILE).write_text("{")
    with pytest.raises(InputError, match=rf"{PAIRS_FILE} is damaged: "):
        note_pairs(PAIRS, tmp_path)
