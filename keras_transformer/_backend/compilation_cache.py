"""Persistent compilation cache."""

import os
from pathlib import Path

import keras


def keep_compilations() -> Path | None:
    """Enable JAX's persistent compilation cache in the user's cache directory.

    JAX's own settings take precedence: `JAX_COMPILATION_CACHE_DIR`, `JAX_ENABLE_COMPILATION_CACHE=false` and
    `jax.config`. JAX caches what took a second or more to compile; its keys include program, versions, device
    and flags. A run's directory would be the wrong place: it may be published, and cached executables belong
    to one machine.

    Returns:
        The cache directory, or None if another one is set, caching is off, the directory cannot be written,
        or the backend is not JAX.
        TensorFlow has an XLA cache only through the environment variable
        `TF_XLA_FLAGS=--tf_xla_persistent_cache_directory=...`, read at import; torch has its own cache.
    """
    if keras.backend.backend() != "jax":
        return None
    import jax

    if jax.config.jax_compilation_cache_dir or not jax.config.jax_enable_compilation_cache:
        return None
    try:
        # The XDG base directory specification ignores relative paths.
        home = Path(os.environ.get("XDG_CACHE_HOME", ""))
        directory = (home if home.is_absolute() else Path.home() / ".cache") / "keras_transformer" / "jax"
        # Entries are executed, so no other user may write to the directory.
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home directory, or not writable
        return None
    if not os.access(directory, os.W_OK):
        return None
    jax.config.update("jax_compilation_cache_dir", str(directory))
    return directory
