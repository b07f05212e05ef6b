"""Execute the notebooks of this folder, and store their outputs.

python examples/notebooks/execute.py                        all of them, in place
python examples/notebooks/execute.py positions_and_masks    one of them
python examples/notebooks/execute.py --small                small settings; leaves the files as they are

Needs the extra `notebooks`. Every notebook ends with checks; a failed check ends this program.
"""

import argparse
import base64
import io
import os
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
CELL_SECONDS = 600


def execute(path: Path) -> nbformat.NotebookNode:
    """Execute a notebook in an empty directory, and keep only what is reproducible."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    with tempfile.TemporaryDirectory() as directory:
        client = NotebookClient(
            notebook,
            timeout=CELL_SECONDS,
            kernel_name="python3",
            resources={"metadata": {"path": directory}},
            record_timing=False,
            coalesce_streams=True,
            # Log lines of TensorFlow's C++ go to the terminal; Python's warnings still fail below.
            extra_arguments=["--IPKernelApp.capture_fd_output=False"],
        )
        client.execute()
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata = {}
        for output in cell.get("outputs", []):
            text = output.get("text", "")
            is_log = output.get("name") == "stderr" or "WARNING:" in text or "INFO:" in text
            assert not is_log, f"{cell.id} of {path.name} writes what is not for its reader: {text}"
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = shrink(output.data["image/png"])
    return notebook


def shrink(picture: str) -> str:
    """Reduce a base64 PNG to a palette, a third of its size, without metadata."""
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    written = io.BytesIO()
    # No dithering: it would add dots to plain areas.
    image.quantize(256, dither=Image.Dither.NONE).save(written, format="PNG", optimize=True)
    return base64.b64encode(written.getvalue()).decode()


def main() -> None:
    """Execute the given notebooks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help="without the suffix; all if none is given")
    parser.add_argument("--small", action="store_true", help="train for seconds, and write no file")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"no such notebook: {', '.join(sorted(unknown))}. Known: {', '.join(NAMES)}.")
    os.environ["KERAS_TRANSFORMER_SMALL"] = "1" if arguments.small else "0"
    for name in arguments.names or NAMES:
        start, path = time.monotonic(), FOLDER / f"{name}.ipynb"
        notebook = execute(path)
        if not arguments.small:
            path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
        print(f"executed {name} in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
