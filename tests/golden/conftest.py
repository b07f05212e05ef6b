"""Lets the tests import the modules beside them, as `record.py` does when it runs."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]
