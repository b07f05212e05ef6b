"""What every test process needs before the package is imported."""

import os
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("MPLBACKEND", "Agg")

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


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """Makes a directory in the first process of pytest-xdist that asks; the others wait for it."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def make(name: str, fill: Callable[[Path], object]) -> Path:
        directory, done = shared / name, shared / f"{name}-done"
        try:
            directory.mkdir()
        except FileExistsError:
            end = time.monotonic() + 600
            while not done.exists():
                assert time.monotonic() < end, f"{directory} was begun elsewhere and not finished"
                time.sleep(0.1)
            return directory
        try:
            fill(directory)
        finally:
            done.touch()
        return directory

    return make


@pytest.fixture
def close(record_property: Callable[[str, object], None]) -> Callable[[Any, Any, float], None]:
    """Compares numbers, and records how far apart they were; `benchmarks/proof_tables.py` reads that."""

    def check(actual: Any, expected: Any, tolerance: float) -> None:
        record_property("difference", float(np.abs(np.asarray(actual) - np.asarray(expected)).max()))
        record_property("tolerance", tolerance)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)

    return check
