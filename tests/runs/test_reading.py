"""What a person reads when a file or a flag is wrong."""

import re
from pathlib import Path

import pytest

from keras_transformer.errors import InputError
from keras_transformer.runs import DecodingConfig, TrainingConfig
from keras_transformer.runs.config import build, changed, parse_json, read_toml


def test_read_toml(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('name = "größe"\n[training]\nepochs = 3\n', encoding="utf-8")
    assert read_toml(path) == {"name": "größe", "training": {"epochs": 3}}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "absent.toml"
    with pytest.raises(
        InputError, match=rf"^{re.escape(str(path))}: cannot be read: No such file or directory\.$"
    ):
        read_toml(path)


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"^{re.escape(str(tmp_path))}: cannot be read: .*directory"):
        read_toml(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"epochs\n", r"line 1"),
        (b"name = 'a\xff'\n", r"byte 0xff in position 9"),
        (b"a = 1\na = 2\n", r"line 2"),
    ],
)
def test_broken_toml_says_where(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"run\.toml: is not valid TOML: .*{reason}") as caught:
        read_toml(path)
    assert "\n" not in str(caught.value)


def test_broken_json_says_where() -> None:
    with pytest.raises(InputError, match=r"^run\.json: is not valid JSON: .*line 1 column 2"):
        parse_json("{", origin="run.json")


def test_build_takes_defaults_for_what_is_missing() -> None:
    assert build(TrainingConfig, {"epochs": 2}, where="run.toml: [training]") == TrainingConfig(epochs=2)


def test_build_names_unknown_and_known_fields() -> None:
    message = (
        "run.toml: [decoding]: unknown field 'beams'. "
        "Known fields: beam_size, length_penalty, max_target_length, batch_size, bleu_tokenize."
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        build(DecodingConfig, {"beam_size": 3, "beams": 4}, where="run.toml: [decoding]")


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"beam_size": "4"}, "`beam_size` must be int. Received: beam_size='4'."),
        ({"beam_size": True}, "`beam_size` must be int. Received: beam_size=True."),
        ({"beam_size": [4]}, "`beam_size` must be int. Received: beam_size=[4]."),
        ({"beam_size": 0}, "`beam_size` must be at least 1. Received: beam_size=0."),
        ("greedy", "must be a table of fields. Received: 'greedy'."),
    ],
)
def test_build_names_file_section_and_value(table: object, reason: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape('run.toml: [decoding]: ' + reason)}$"):
        build(DecodingConfig, table, where="run.toml: [decoding]")


def test_changed_takes_only_its_own_fields() -> None:
    before = DecodingConfig(beam_size=2)
    assert changed(before, {"beam_size": 5, "epochs": 1}) == DecodingConfig(beam_size=5)
    assert before.beam_size == 2


def test_changed_reports_a_wrong_value_as_input() -> None:
    with pytest.raises(InputError, match=r"^`beam_size` must be at least 1\. Received: beam_size=-1\.$"):
        changed(DecodingConfig(), {"beam_size": -1})


def test_a_mark_before_utf_8_is_no_part_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(b"\xef\xbb\xbf" + 'name = "größe"\n'.encode())
    assert read_toml(path) == {"name": "größe"}
