"""What a compiler keeps on the disk, so that the next process need not compile it again."""

import os
from pathlib import Path

import keras


def keep_compilations() -> Path | None:
    """Let JAX keep compiled functions in the user's cache directory, unless it was told where, or not to.

    Not in a run's directory: runs of like models share what they compile, and a run is copied and published,
    which an executable of one machine should not be. Not in the current directory, which may be a repository.
    JAX's own settings win: `JAX_COMPILATION_CACHE_DIR`, `JAX_ENABLE_COMPILATION_CACHE=false`, and what
    `jax.config` was given. It keeps what took a second or more, and names an entry by the program, the
    versions, the device and the flags, so an old entry is never taken for another program's.

    Returns:
        The directory; None where another one was set, or nothing is kept. TensorFlow keeps what XLA compiled
        only by an environment variable that it reads when it is imported,
        `TF_XLA_FLAGS=--tf_xla_persistent_cache_directory=...`, and torch has a cache by itself.
    """
    if keras.backend.backend() != "jax":
        return None
    import jax

    if jax.config.jax_compilation_cache_dir or not jax.config.jax_enable_compilation_cache:
        return None
    try:
        # By the XDG base directory specification a path that is not absolute is left aside.
        home = Path(os.environ.get("XDG_CACHE_HOME", ""))
        directory = (home if home.is_absolute() else Path.home() / ".cache") / "keras_transformer" / "jax"
        # An entry is code that will run: nobody else may write one.
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # a container without a home, or one that cannot be written
        return None
    if not os.access(directory, os.W_OK):
        return None
    jax.config.update("jax_compilation_cache_dir", str(directory))
    return directory
