"""The command line, thin over the library: one verb, one file, which `keras_transformer_cli` imports."""

__all__ = ()
