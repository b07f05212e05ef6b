"""Fixtures of all tests of a run."""

from trained_run import command, pairs_file, trained

__all__ = ["command", "pairs_file", "trained"]
