"""Downloads the wheels that a machine without a network needs in addition to JAX and torch.

    python -m benchmarks.accelerator.carry build/wheels --python 3.12

On that machine, run `python3 -m pip install --no-index --no-deps --target /tmp/site build/wheels/*.whl` and
set `PYTHONPATH=/tmp/site`. The folder `build` is ignored by git.
"""

import argparse
import re
import subprocess
import sys
import zipfile
from pathlib import Path

PACKAGES = ("keras", "namex", "optree", "pydantic", "annotated-types", "typing-inspection")
PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
)


def download(directory: Path, python: str, *packages: str) -> None:
    """Download wheels without their dependencies."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    options = [
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--python-version",
        python,
        "--implementation",
        "cp",
    ]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        *options,
        *platforms,
        "--dest",
        str(directory),
        *packages,
    ]
    subprocess.run(command, check=True)


def core_of(wheel: Path) -> str:
    """Return the pydantic-core that a wheel of pydantic asks for, as in `pydantic-core==2.50.5`."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        text = archive.read(name).decode()
    return "".join(re.findall(r"^Requires-Dist: (pydantic-core==\S+)", text, re.MULTILINE)[0].split())


def main() -> None:
    """Download everything."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accelerator.carry", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("directory", type=Path, help="for the wheels")
    parser.add_argument("--python", default="3.12", help="version of Python there; 3.12 if absent")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    download(options.directory, options.python, *PACKAGES)
    [pydantic] = options.directory.glob("pydantic-*.whl")
    download(options.directory, options.python, core_of(pydantic))
    wheels = sorted(options.directory.glob("*.whl"))
    print("\n".join(f"{wheel.stat().st_size:>10,} {wheel.name}" for wheel in wheels))


if __name__ == "__main__":
    main()
