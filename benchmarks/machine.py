"""Names the machine and the versions under a table of numbers."""

import os
import platform
from collections.abc import Sequence
from importlib import metadata


def machine(packages: Sequence[str]) -> str:
    """Describe the machine and the versions.

    Args:
        packages: installed packages whose versions matter.

    Returns:
        one line.
    """
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {versions}"
