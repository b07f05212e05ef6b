"""Checks of training."""
