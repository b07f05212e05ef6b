"""Which models and versions are served, as a models.config says."""

import threading
from pathlib import Path, PurePosixPath

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from model_server_double.batching import Batcher, BatchingParameters
from model_server_double.errors import ServerError
from model_server_double.served_version import ServedVersion

Config = model_server_config_pb2.ModelServerConfig


class Registry:
    """The models of a configuration file; `refresh` reads it and their directories again.

    Args:
        config_file: a ModelServerConfig in text form.
        models: the directory that stands for `/models`, as `docker run -v` would mount it.
        warmup: whether recorded requests are answered when a version is loaded.
        batching: how requests are joined; None for each by itself.
    """

    def __init__(
        self,
        config_file: Path,
        models: Path,
        *,
        warmup: bool = True,
        batching: BatchingParameters | None = None,
    ) -> None:
        self._config_file, self._models, self._warmup = config_file, models, warmup
        self._batcher = None if batching is None else Batcher(batching)
        self._lock = threading.Lock()
        self.versions: dict[str, dict[int, ServedVersion]] = {}
        self.labels: dict[str, dict[str, int]] = {}
        self.refresh()

    def refresh(self) -> list[str]:
        """Load what should be served and drop the rest; return a line for each change."""
        text = self._config_file.read_text(encoding="utf-8")
        configs = text_format.Parse(text, Config()).model_config_list.config
        with self._lock:
            changes = [change for config in configs for change in self._refresh_model(config)]
            self.labels = {config.name: dict(config.version_labels) for config in configs}
        return changes

    def find(self, name: str, version: int | None = None, label: str = "") -> tuple[int, ServedVersion]:
        """Return a version: the one that is named, else the highest."""
        versions = self.versions.get(name, {})
        if label:
            version = self.labels.get(name, {}).get(label, -1)
            if version == -1:
                raise ServerError(f"Unrecognized servable version label: {label}")
        if version is None and versions:
            version = max(versions)
        if version not in versions:
            wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise ServerError(f"Servable not found for request: {wanted}", "NOT_FOUND")
        return version, versions[version]

    def _load(self, directory: Path) -> ServedVersion:
        return ServedVersion(directory, warmup=self._warmup, batcher=self._batcher)

    def _refresh_model(self, config: model_server_config_pb2.ModelConfig) -> list[str]:
        base = self._models / PurePosixPath(config.base_path).relative_to("/models")
        on_disk = {int(path.name): path for path in base.glob("*") if path.name.isdecimal()}
        policy = config.model_version_policy
        wanted = (
            {*policy.specific.versions} & {*on_disk}
            if policy.HasField("specific")
            else {max(on_disk, default=0)}
        )
        served = self.versions.get(config.name, {})
        loaded = {
            version: served.get(version) or self._load(on_disk[version]) for version in wanted & {*on_disk}
        }
        self.versions[config.name] = loaded
        came = [
            f"loaded {config.name} version {version} ({loaded[version].num_warmup_requests} warm-up requests)"
            for version in sorted({*loaded} - {*served})
        ]
        return came + [
            f"unloaded {config.name} version {version}" for version in sorted({*served} - {*loaded})
        ]
