"""Fixtures of all tests of a run."""

from trained_run import command, pairs_file, trained, untraced

__all__ = ["command", "pairs_file", "trained", "untraced"]
