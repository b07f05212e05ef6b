"""Two exports at once into one directory: each gets a version of its own."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import keras_transformer as kt
from keras_transformer._files import Checksums
from keras_transformer.errors import InputError
from keras_transformer.export import ServedModel, export_saved_model, saved_model

NUM_AT_ONCE = 2


@pytest.mark.slow
# Python's filters of warnings are those of the process: one thread undoes what another ignores.
@pytest.mark.filterwarnings("ignore::keras_transformer.tasks.TruncationWarning")
def test_each_of_several_threads_gets_a_version(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier = threading.Barrier(NUM_AT_ONCE)
    # All are at the end before one is finished.
    monkeypatch.setattr(saved_model, "_verify_results", lambda *arguments, **options: barrier.wait(300))
    with ThreadPoolExecutor(NUM_AT_ONCE) as threads:
        exports = [
            threads.submit(export_saved_model, translator, tmp_path / "models/tiny")
            for _ in range(NUM_AT_ONCE)
        ]
        written = {export.result() for export in exports}
    assert written == {tmp_path / f"models/tiny/{number + 1}" for number in range(NUM_AT_ONCE)}
    names = {path.name for path in (tmp_path / "models/tiny").iterdir()}
    assert names == {"1", "2", "models.config"}
    for export in written:
        Checksums.check(export)
        assert f"tiny/{export.name}" in (export / "README.md").read_text()
        assert ServedModel(export).translate(["w1ab"]) == translator.translate(["w1ab"])


@pytest.fixture(scope="module")
def translator(trained: Path) -> kt.Translator:
    """Loaded and traced once: each export asks it for examples."""
    return kt.Translator.load(trained / "runs/tiny")


@pytest.fixture
def unwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write everything but the graphs, which take seconds, and do not verify them."""
    monkeypatch.setattr(saved_model, "_write_graphs", lambda *_: None)
    monkeypatch.setattr(saved_model, "_verify_results", lambda *_, **__: None)


@pytest.mark.usefixtures("unwritten")
def test_an_export_that_fails_leaves_the_next_one_its_number(
    translator: kt.Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise kt.errors.ExportError("another answer")

    with monkeypatch.context() as patch:
        patch.setattr(saved_model, "_verify_results", fail)
        with pytest.raises(kt.errors.ExportError, match="another answer"):
            export_saved_model(translator, tmp_path / "models")
    assert not (tmp_path / "models").exists()
    assert export_saved_model(translator, tmp_path / "models").name == "1"


@pytest.mark.usefixtures("unwritten")
def test_a_claim_of_a_killed_process_is_no_obstacle(translator: kt.Translator, tmp_path: Path) -> None:
    (tmp_path / "models/.partial-claim-1").mkdir(parents=True)
    assert export_saved_model(translator, tmp_path / "models").name == "2"


def test_a_directory_that_cannot_be_made_is_named(translator: kt.Translator, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    with pytest.raises(InputError, match=rf"^Cannot write {tmp_path}/models"):
        export_saved_model(translator, tmp_path / "models")


@pytest.mark.slow
def test_both_of_two_processes_get_a_version(run: Path, tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from keras_transformer_cli import main; main()"]
    words = [*program, "export", str(run), str(tmp_path / "models")]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    printed = {process.communicate(timeout=600)[0].decode().strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert printed == {str(tmp_path / "models" / version) for version in ("1", "2")}
