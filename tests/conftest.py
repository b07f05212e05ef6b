"""What every test process needs before the package is imported."""

import gc
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
# What `-m smoke` runs: something of every room, within a minute on two cores.
SMOKE = {
    TESTS / name
    for name in (
        "architecture/test_stages.py",
        "text/test_subword.py",
        "data/test_encoding.py",
        "layers/test_multi_head_attention.py",
        "models/test_transformer.py",
        "visualization/test_mask.py",
        "training/test_losses.py",
        "decoding/test_beam.py",
        "course/test_functions.py",
        "evaluation/test_error_rates.py",
        "export/test_served_model.py",
        "cli/test_main.py",
    )
}

# What takes longest is begun first, so that both processes end together. Of those that use the trained run
# one comes first: the second process would wait for it.
LONG = [
    TESTS / name
    for name in (
        "integration/test_code_blocks.py",
        "cli/test_evaluate.py",
        "training/test_fit.py",
        "data/test_pipeline.py",
        "data/test_id_cache.py",
        "export/test_verification.py",
        "pretrained/test_round_trips.py",
        "models/test_configured_model.py",
        "decoding/test_search.py",
        "models/test_ensemble.py",
        "tasks/test_directory.py",
        "conformance/test_masks.py",
        "tasks/test_translator.py",
        "tasks/test_text_generator.py",
        "pretrained/test_tokenizers.py",
        "decoding/test_generation.py",
    )
]

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("MPLBACKEND", "Agg")
# Waiting threads keep a core busy, and a test process has one core: one thread for torch, and for TensorFlow.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
# What XLA compiles runs once here, so it need not run fast. Other processes of a test inherit this.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)

# Traced graphs are many objects that stay. Looking through them again and again, as Python does, takes
# 8 % of the time; after each hundred thousand objects it is still 5 %.
gc.set_threshold(1_000_000, 20, 20)

# A first call traces a graph, so the time of one example says nothing about the next.
settings.register_profile("keras_transformer", deadline=None)
settings.load_profile("keras_transformer")


def _test_what_is_installed() -> None:
    """Take the checkout off the import path where the package is installed.

    `python -m pytest` puts the working directory first, which would hide the installed wheel, and with
    it a file that the wheel lacks. An editable install adds its own entry, which stays.
    """
    try:
        metadata.distribution("keras-transformer")
    except metadata.PackageNotFoundError:
        return
    if Path(sys.path[0] or ".").resolve() == ROOT:
        del sys.path[0]
    os.environ["PYTHONSAFEPATH"] = "1"  # the same for processes that a test starts


_test_what_is_installed()


# Keras searches for garbage whenever a layer deletes a weight, as `quantize` does for each one; a search
# through all that TensorFlow imports takes 0.4 s.
@pytest.fixture(scope="module", autouse=True)
def _garbage_waits_for_the_next_file() -> Iterator[None]:
    """Search for garbage before a file of tests, and leave what imports have made out of later searches."""
    gc.collect()
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "collect", lambda *_: 0)
        yield


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[Path], object]], Path]:
    """Makes the directory of a function in the first process of pytest-xdist that asks; the others wait."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def make(fill: Callable[[Path], object]) -> Path:
        name = re.sub(r"\W+", "-", f"{fill.__module__} {fill.__qualname__}")
        directory, done = shared / name, shared / f"{name}-done"
        try:
            directory.mkdir()
        except FileExistsError:
            end = time.monotonic() + 600
            while not done.exists():
                assert time.monotonic() < end, f"{directory} was begun elsewhere and not finished"
                time.sleep(0.1)
            assert done.read_text("utf-8") == "", f"{directory} could not be made: {done.read_text('utf-8')}"
            return directory
        error = "stopped"
        try:
            fill(directory)
            error = ""
        except Exception as exception:
            error = repr(exception)
            raise
        finally:
            # Written beside and renamed, so that nobody reads half of it.
            (shared / f"{name}-error").write_text(error, encoding="utf-8")
            (shared / f"{name}-error").rename(done)
        return directory

    return make


@pytest.fixture
def close(record_property: Callable[[str, object], None]) -> Callable[[Any, Any, float], None]:
    """Compares numbers, and records their difference for `benchmarks/quality/references.py`."""

    def check(actual: Any, expected: Any, tolerance: float) -> None:
        record_property("difference", float(np.abs(np.asarray(actual) - np.asarray(expected)).max()))
        record_property("tolerance", tolerance)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)

    return check


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no more files than `-m smoke` runs: most of a short run is their imports."""
    is_smoke = config.getoption("markexpr") == "smoke"
    return True if is_smoke and collection_path.suffix == ".py" and collection_path not in SMOKE else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the files in `SMOKE`, but those that need more time or another backend; order all."""
    items.sort(key=lambda item: LONG.index(item.path) if item.path in LONG else len(LONG))
    for item in items:
        others = {marker.name for marker in item.iter_markers()} & {"slow", "backend"}
        if item.path in SMOKE and not others:
            item.add_marker("smoke")


@pytest.fixture(scope="session")
def transformer() -> Any:
    """A tiny model of 9 source and 8 target ids, the same on each backend.

    Its random weights are so large that different sources have different answers.
    """
    import keras_transformer as kt
    from helpers import talkative

    model = kt.Transformer(
        9, 8, num_layers=2, hidden_dim=8, num_heads=2, intermediate_dim=16, tie_output=False
    )
    return talkative(model, seed=23)
