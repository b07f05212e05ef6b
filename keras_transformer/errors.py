"""Errors that the command line prints as one line: unusable input and failed exports."""


class InputError(ValueError):
    """A file, line or value of the user cannot be used.

    The message is one line that names the file, line or value. The command line prints it and exits with
    status 2. Wrong constructor arguments raise a plain `ValueError` or `TypeError` instead.
    """


class NoSplitError(InputError):
    """A dataset has no split of the given name."""


class ExportError(RuntimeError):
    """An export failed its verification: an operation, a signature or an output is not as expected."""
