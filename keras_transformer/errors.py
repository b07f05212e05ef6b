"""The error for what a user hands in."""


class InputError(ValueError):
    """A user's file, line or value cannot be used.

    The message is one line that names the file, line or value, so that the
    command line prints it as it stands and exits with status 2. Wrong
    arguments of constructors stay plain `ValueError` or `TypeError`.
    """
