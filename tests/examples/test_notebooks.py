"""The notebooks are committed with their outputs, and can be executed again."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
NAMES = ("annotated_transformer", "course_assignment", "dates_to_served_model", "positions_and_masks")
MAX_BYTES = 700_000  # together they stay small enough to clone


def code_cells(name: str) -> list[dict[str, Any]]:
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_every_notebook_is_tested() -> None:
    assert tuple(sorted(path.stem for path in FOLDER.glob("*.ipynb"))) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_committed_and_fit_to_be_read(name: str) -> None:
    cells = code_cells(name)
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell["outputs"] for cell in cells if any("print(" in line[:6] for line in cell["source"]))
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert {output.get("name", "stdout") for output in outputs} == {"stdout"}
    texts = "".join(line for output in outputs for line in output.get("text", []))
    assert "WARNING:" not in texts
    assert "INFO:" not in texts
    assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("name", NAMES)
def test_files_are_small_and_of_no_machine(name: str) -> None:
    content = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    assert len(content) < MAX_BYTES
    assert all(cell["metadata"] == {} for cell in code_cells(name))
    assert re.findall("/(?:tmp|home|root|work)/", content) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_small_setting_executes(name: str, run_example: Callable[..., str]) -> None:
    assert f"executed {name} in " in run_example("notebooks/execute.py", name)
