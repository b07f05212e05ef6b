"""The state of a run: what it says, what a version before said, and which of two is read."""

import dataclasses
import errno
import json
import math
from pathlib import Path

import keras
import pytest

from keras_transformer.errors import InputError
from keras_transformer.training import CheckpointState, CheckpointWarning, read_state
from keras_transformer.training.checkpoint_state import model_options, read_states, write_state

FIRST = CheckpointState(
    epoch=1,
    last_file="epoch-0001.keras",
    best_file="epoch-0001.keras",
    best_epoch=1,
    best_value=0.1 + 0.2,
    history={"loss": [0.5], "val_loss": [0.1 + 0.2]},
    sha256={"epoch-0001.keras": "ab" * 32},
    random_state=[[5, 1], [7, 2]],
)
SECOND = dataclasses.replace(FIRST, epoch=2, last_file="epoch-0002.keras")

# What `state.json` held before there were checksums.
OLD = {
    "epoch": 2,
    "last_file": "epoch-0002.keras",
    "best_file": "epoch-0001.keras",
    "best_epoch": 1,
    "best_value": 1.5,
    "history": {"val_loss": [1.5, 2.0]},
}

DAMAGED = (
    b"",
    b"{",
    b"[]",
    b"3",
    b'{"epochs": 3}',
    b"\xff{}",
    b'{"epoch": "3"}',
    b'{"history": [1]}',
    b'{"sha256": []}',
    b'{"random_state": {}}',
)


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_run_without_an_epoch_has_no_state(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    assert read_state(tmp_path / "absent") is None


def test_a_state_is_read_to_the_last_bit(tmp_path: Path) -> None:
    write_state(tmp_path, FIRST, CheckpointState())
    assert files(tmp_path) == ["state.json"]
    assert read_state(tmp_path) == FIRST
    assert json.loads((tmp_path / "state.json").read_text())["epoch"] == 1


def test_what_is_no_number_is_read_as_such(tmp_path: Path) -> None:
    write_state(tmp_path, dataclasses.replace(FIRST, best_value=math.nan), CheckpointState())
    state = read_state(tmp_path)
    assert state is not None
    assert math.isnan(state.best_value)


def test_the_state_before_stays(tmp_path: Path) -> None:
    write_state(tmp_path, FIRST, CheckpointState())
    write_state(tmp_path, SECOND, FIRST)
    assert files(tmp_path) == ["state-before.json", "state.json"]
    assert read_states(tmp_path) == [SECOND, FIRST]


def test_a_state_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps(OLD))
    state = read_state(tmp_path)
    assert state == CheckpointState(**OLD)
    assert (state.sha256, state.random_state) == ({}, [])


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_state_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_bytes(content)
    with pytest.raises(InputError, match=r"state\.json is damaged: ") as caught:
        read_state(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"), [("0.5", "0.7"), ("ab", "cb"), ("epoch", "epoci"), ("checksum", "cheksum")]
)
def test_one_byte_is_noticed(old: str, new: str, tmp_path: Path) -> None:
    write_state(tmp_path, FIRST, CheckpointState())
    path = tmp_path / "state.json"
    content = path.read_text()
    path.write_text(content.replace(old, new, 1))
    with pytest.raises(InputError, match=r"state\.json is damaged: "):
        read_state(tmp_path)
    path.write_text(content)
    assert read_state(tmp_path) == FIRST


def test_the_checksum_is_shown(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"epoch": 3, "checksum": "00"}')
    # Of `{"epoch": 3}`.
    received = "8f5de95b4b00fa9f2e37703e9dbf398c205883febf5cc745ac908679387e3281"
    with pytest.raises(InputError, match=rf"its checksum must be '00'\. Received: '{received}'\."):
        read_state(tmp_path)


def test_a_wrong_type_is_shown(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"epoch": "3"}')
    with pytest.raises(InputError, match=r"epoch must be of type int\. Received: epoch='3'\."):
        read_state(tmp_path)


@pytest.mark.parametrize("content", DAMAGED)
def test_the_state_before_takes_the_place_of_a_damaged_one(content: bytes, tmp_path: Path) -> None:
    write_state(tmp_path, SECOND, FIRST)
    (tmp_path / "state.json").write_bytes(content)
    with pytest.warns(CheckpointWarning, match=r"state\.json is damaged: .* The other state is used\."):
        assert read_state(tmp_path) == FIRST


def test_a_missing_state_is_as_good_as_a_damaged_one(tmp_path: Path) -> None:
    write_state(tmp_path, SECOND, FIRST)
    (tmp_path / "state.json").unlink()
    with pytest.warns(CheckpointWarning, match=r"state\.json is missing\. The other state is used\."):
        assert read_state(tmp_path) == FIRST


def test_a_damaged_state_before_is_left_out(tmp_path: Path) -> None:
    write_state(tmp_path, SECOND, FIRST)
    (tmp_path / "state-before.json").write_bytes(b"{")
    with pytest.warns(CheckpointWarning, match=r"state-before\.json is damaged"):
        assert read_states(tmp_path) == [SECOND]


def test_two_damaged_states_are_an_error(tmp_path: Path) -> None:
    for name in ("state.json", "state-before.json"):
        (tmp_path / name).write_bytes(b"{")
    with pytest.raises(InputError, match=r"state\.json is damaged"):
        read_state(tmp_path)


@pytest.mark.parametrize("failing", ["state.json", "state-before.json"])
def test_a_full_disk_leaves_the_state_before(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_state(tmp_path, FIRST, CheckpointState())
    write_bytes = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if path.name.startswith(f".{failing}."):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_bytes(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(InputError, match=rf"{failing}: No space left on device"):
            write_state(tmp_path, SECOND, FIRST)
    assert read_state(tmp_path) == FIRST


def test_options_of_a_model_are_numbers_names_and_switches() -> None:
    options = model_options(keras.layers.Dense(3, activation="relu", use_bias=False, name="mine"))
    assert options["units"] == 3
    assert options["activation"] == "relu"
    assert options["use_bias"] is False
    assert not {"name", "trainable", "kernel_initializer"} & options.keys()


def test_a_model_that_cannot_tell_its_options() -> None:
    class Mine(keras.Model):
        def get_config(self) -> dict[str, object]:
            raise NotImplementedError

    assert model_options(Mine()) == {}
