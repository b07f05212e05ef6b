"""What a run came to: scores, time, the export, and texts to try it with."""

import json
from pathlib import Path
from typing import Any

from keras_transformer.files import write_file

REPORT_FILE = "report.json"


def write_report(directory: Path, results: dict[str, Any], examples: list[str]) -> None:
    """Write the report of a run.

    Args:
        directory: of the run.
        results: scores and whatever else is known.
        examples: some sources of the test data.

    Raises:
        InputError: the file cannot be written.
    """
    report = {**results, "examples": examples}
    write_file(directory / REPORT_FILE, (json.dumps(report, indent=2) + "\n").encode())


def run_examples(directory: Path) -> tuple[str, ...]:
    """Read the examples of a run.

    Args:
        directory: of a model, whether a run made it or not.

    Returns:
        Sources; none where there is no report, or none that can be read.
    """
    try:
        examples = json.loads((directory / REPORT_FILE).read_text(encoding="utf-8"))["examples"]
        return tuple(example for example in examples if isinstance(example, str))
    except (OSError, ValueError, KeyError, TypeError):
        return ()
