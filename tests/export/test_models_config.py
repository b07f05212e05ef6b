"""The file for `--model_config_file`, read back with TensorFlow Serving's own messages."""

from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from keras_transformer.export.saved_model import model_name, models_config, write_models_config


@pytest.mark.parametrize("name", ["de_en", 'a "b" \\c', "ä"])
def test_a_server_reads_it(name: str) -> None:
    parsed = text_format.Parse(models_config(name), model_server_config_pb2.ModelServerConfig())
    [config] = parsed.model_config_list.config
    assert (config.name, config.base_path) == (name, f"/models/{name}")
    assert config.model_platform == "tensorflow"
    assert not config.version_labels


def test_the_hint_in_the_comment_is_valid() -> None:
    lines = [line.strip() for line in models_config("a").splitlines()]
    hints = [line.removeprefix("#   ") for line in lines if line.startswith("#   ")]
    config = text_format.Parse("\n".join(hints), model_server_config_pb2.ModelConfig())
    assert list(config.model_version_policy.specific.versions) == [1, 2]
    assert dict(config.version_labels) == {"stable": 1}


def test_one_that_was_edited_stays(tmp_path: Path) -> None:
    write_models_config(tmp_path)
    (tmp_path / "models.config").write_text("pinned to version 1")
    write_models_config(tmp_path)
    assert (tmp_path / "models.config").read_text() == "pinned to version 1"


def test_it_is_written_once(tmp_path: Path) -> None:
    (tmp_path / "de_en").mkdir()
    for _ in range(2):
        write_models_config(tmp_path / "de_en")
    assert [path.name for path in (tmp_path / "de_en").iterdir()] == ["models.config"]
    assert (tmp_path / "de_en/models.config").read_text() == models_config("de_en")


def test_a_model_has_the_name_of_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "en_de/sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "en_de")
    monkeypatch.chdir(tmp_path / "en_de/sub")
    assert [model_name(Path(path)) for path in ("..", ".", "../../link")] == ["en_de", "sub", "link"]
