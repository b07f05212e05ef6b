"""The command line: one verb, one file, thin over the library.

Only `click` and the configuration are imported here; what takes seconds to import is
imported by the command that needs it, so that `--help` answers at once.
"""

from keras_transformer.cli.main import main

__all__ = ["main"]
