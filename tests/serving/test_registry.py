"""Which versions the double serves, and when that changes."""

import shutil
from pathlib import Path

import pytest
import tensorflow as tf
from model_server_double.errors import ServerError
from model_server_double.registry import Registry
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

CONFIG = "model_config_list {{ config {{ name: 'toy' base_path: '/models/toy' {} }} }}"


@pytest.fixture
def models(toy_models: Path, tmp_path: Path) -> Path:
    shutil.copytree(toy_models / "toy" / "1", tmp_path / "models" / "toy" / "1")
    return tmp_path / "models"


def test_a_new_version_takes_over_and_the_old_one_goes(
    toy_models: Path, models: Path, config_file: Path
) -> None:
    registry = Registry(config_file, models)
    assert registry.find("toy")[0] == 1
    assert registry.refresh() == []
    shutil.copytree(toy_models / "toy" / "2", models / "toy" / "2")
    assert registry.refresh() == ["loaded toy version 2 (0 warm-up requests)", "unloaded toy version 1"]
    assert registry.find("toy")[0] == 2
    with pytest.raises(ServerError, match=r"Specific\(toy, 1\)"):
        registry.find("toy", 1)


def test_the_file_rolls_back_and_labels(toy_models: Path, config_file: Path) -> None:
    registry = Registry(config_file, toy_models)
    assert registry.find("toy")[0] == 2
    pinned = "model_version_policy { specific { versions: 1 } } version_labels { key: 'stable' value: 1 }"
    config_file.write_text(CONFIG.format(pinned))
    registry.refresh()
    assert registry.find("toy")[0] == registry.find("toy", label="stable")[0] == 1


def test_a_directory_being_written_is_no_version(models: Path, config_file: Path) -> None:
    shutil.copytree(models / "toy" / "1", models / "toy" / ".partial-2")
    assert list(Registry(config_file, models).versions["toy"]) == [1]


def test_a_model_without_versions_is_not_found(tmp_path: Path, config_file: Path) -> None:
    with pytest.raises(ServerError, match=r"Latest\(toy\)") as caught:
        Registry(config_file, tmp_path).find("toy")
    assert caught.value.http_status == 404


def write_warmup_requests(models: Path, *texts: str, signature_name: str = "serving_default") -> None:
    path = models / "toy" / "1" / "assets.extra" / "tf_serving_warmup_requests"
    path.parent.mkdir()
    spec = model_pb2.ModelSpec(name="toy", signature_name=signature_name)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for text in texts:
            inputs = {"text": tf.make_tensor_proto([text], tf.string)}
            request = predict_pb2.PredictRequest(model_spec=spec, inputs=inputs)
            log = prediction_log_pb2.PredictLog(request=request)
            writer.write(prediction_log_pb2.PredictionLog(predict_log=log).SerializeToString())


def test_warm_up_requests_are_answered_at_load(models: Path, config_file: Path) -> None:
    write_warmup_requests(models, "a", "b")
    assert Registry(config_file, models).find("toy")[1].num_warmup_requests == 2
    assert Registry(config_file, models, warmup=False).find("toy")[1].num_warmup_requests == 0


def test_a_wrong_warm_up_request_stops_the_load(models: Path, config_file: Path) -> None:
    write_warmup_requests(models, "a", signature_name="serving_defaulT")
    with pytest.raises(ServerError, match='"serving_defaulT" not found'):
        Registry(config_file, models)
