"""Command line interface: one module per command, imported by `keras_transformer_cli`."""

__all__ = ()
