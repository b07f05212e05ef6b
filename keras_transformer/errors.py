"""The errors that a user sees as one line: for what was handed in, and for an export that is not right."""


class InputError(ValueError):
    """A user's file, line or value cannot be used.

    The message is one line that names the file, line or value, so that the command line prints it as it
    stands and exits with status 2. Wrong arguments of constructors stay plain `ValueError` or `TypeError`.
    """


class ExportError(RuntimeError):
    """An export is not what it must be: an operation, a signature or an answer is another."""
